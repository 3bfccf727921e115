package kernel

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
	"gotest.tools/v3/assert"

	"outrigger.dev/sim/internal/kmod"
)

// fake is a node that takes modules for a driver of version 1.
type fake struct {
	device string

	mu     sync.Mutex
	loaded []string
}

func (f *fake) LoadModule(m kmod.Module, params []string) error {
	if m.Version != "1" {
		return unix.ENOEXEC
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.loaded = append(f.loaded, m.Name+" "+strings.Join(params, ","))
	return nil
}

func (f *fake) UnloadModule(name string) error {
	if name == "broken" {
		return errors.New("the node is broken")
	}
	return unix.EWOULDBLOCK
}

func (f *fake) Served(path string) bool { return path == f.device }

// TestProgramsAreAnswered makes the system calls of a program on the simulated kernel.
func TestProgramsAreAnswered(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can attach the simulated kernel")
	}
	f := &fake{device: filepath.Join(t.TempDir(), "nvidiactl")}
	if err := unix.Mknod(f.device, unix.S_IFCHR|0o600, int(unix.Mkdev(195, 255))); err != nil { //nolint:gosec // a small number
		t.Skip("this machine has no device nodes in its folder of temporary files: ", err)
	}
	done := make(chan struct{})
	// The thread ends with its goroutine, and the kernel with the thread.
	go func() {
		defer close(done)
		runtime.LockOSThread()
		listener, err := Attach()
		if err != nil {
			t.Error(err)
			return
		}
		go func() { _ = Serve(listener, f, io.Discard) }()
		f.program(t)
	}()
	<-done
	f.mu.Lock()
	defer f.mu.Unlock()
	if got := strings.Join(f.loaded, "; "); got != "nvidia a=1,b=2" {
		t.Errorf("loaded %q", got)
	}
}

// program is what a program does.
func (f *fake) program(t *testing.T) {
	load := func(version string) error {
		m := kmod.Stack(version, "r")[0]
		file, err := m.File()
		if err != nil {
			return err
		}
		fd, err := unix.MemfdCreate("module", unix.MFD_CLOEXEC)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		if _, err := unix.Write(fd, file); err != nil {
			return err
		}
		return unix.FinitModule(fd, "a=1 b=2", 0)
	}
	assert.NilError(t, load("1"), "a module")
	assert.ErrorIs(t, load("2"), unix.ENOEXEC)
	assert.ErrorIs(t, unix.FinitModule(-1, "", 0), unix.EBADF)
	for name, want := range map[string]error{"nvidia": unix.EWOULDBLOCK, "broken": unix.EIO, "": unix.ENOENT, "../x": unix.ENOENT} {
		if err := unix.DeleteModule(name, 0); !errors.Is(err, want) {
			t.Errorf("unload %q: %v, want %v", name, err, want)
		}
	}
	fd, err := unix.Open(f.device, deviceFlags, 0)
	if err != nil {
		t.Errorf("a device with a driver: %v", err)
	} else if err := unix.Close(fd); err != nil {
		t.Error(err)
	}
	if fd, err := unix.Open(f.device, unix.O_RDONLY, 0); err == nil {
		t.Errorf("a device with other flags opens as %d", fd)
	}
	if fd, err := unix.Open("/dev/null", deviceFlags, 0); err != nil {
		t.Errorf("another device: %v", err)
	} else if err := unix.Close(fd); err != nil {
		t.Error(err)
	}
}
