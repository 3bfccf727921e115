package upkeep_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
	"gotest.tools/v3/assert"

	"outrigger.dev/agents/container-toolkit/internal/upkeep"
)

// ended returns the number of a process that has ended.
func ended(t *testing.T) int {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "true")
	assert.NilError(t, cmd.Run())
	return cmd.Process.Pid
}

// readerLocks writes the file of a toolkit, and locks it as a process that may only read it.
func readerLocks(t *testing.T, path string, pid int) {
	t.Helper()
	assert.NilError(t, os.WriteFile(path, []byte(strconv.Itoa(pid)+"\n"), 0o600))
	if err := os.Chmod(path, 0o644); err != nil { //nolint:gosec // as NVIDIA's toolkit leaves it
		t.Fatal(err)
	}
	f, err := os.Open(path)
	assert.NilError(t, err)
	t.Cleanup(func() { f.Close() })
	assert.NilError(t, unix.Flock(int(f.Fd()), unix.LOCK_EX))
}

func TestAReaderCannotKeepTheLockOfAKilledToolkit(t *testing.T) {
	if ns, err := os.Readlink("/proc/self/ns/pid"); err != nil || ns != "pid:[4026531836]" {
		t.Skipf("this test does not see the processes of the host: it runs in %s (error %v)", ns, err)
	}
	path := filepath.Join(t.TempDir(), "toolkit.pid")
	killed := ended(t)
	readerLocks(t, path, killed)
	lock := &upkeep.Lock{Path: path}
	for range 2 { // A toolkit that takes the lock now names itself meanwhile.
		err := lock.Acquire()
		if err == nil || !strings.Contains(err.Error(), "process "+strconv.Itoa(killed)) || !strings.Contains(err.Error(), "another process has locked "+path) {
			t.Errorf("it waits because of %v", err)
		}
	}
	assert.NilError(t, lock.Acquire())
	content, err := os.ReadFile(path)
	if err != nil || string(content) != strconv.Itoa(os.Getpid())+"\n" {
		t.Errorf("the file has %q (error %v), want this process", content, err)
	}
	assert.NilError(t, lock.Release())
}

// A toolkit that lives may be of another version, or NVIDIA's.
func TestTheLockOfAToolkitThatLivesIsKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "toolkit.pid")
	readerLocks(t, path, os.Getpid())
	before, err := os.Stat(path)
	assert.NilError(t, err)
	lock := &upkeep.Lock{Path: path}
	for range 3 {
		if err := lock.Acquire(); err == nil || !strings.Contains(err.Error(), "another container toolkit runs on this node (process "+strconv.Itoa(os.Getpid())+")") {
			t.Errorf("it waits because of %v", err)
		}
	}
	if after, err := os.Stat(path); err != nil || !os.SameFile(before, after) {
		t.Errorf("the file was replaced (error %v)", err)
	}
}

func TestOnlyRootMayOpenTheLock(t *testing.T) {
	for name, make := range map[string]func(path string) error{
		"a new file": func(string) error { return nil },
		"a file of NVIDIA's toolkit": func(path string) error {
			return os.WriteFile(path, nil, 0o644) //nolint:gosec // as it left it
		},
	} {
		t.Run(name, func(t *testing.T) {
			lock := &upkeep.Lock{Path: filepath.Join(t.TempDir(), "toolkit.pid")}
			assert.NilError(t, make(lock.Path))
			assert.NilError(t, lock.Acquire())
			defer lock.Release()
			if info, err := os.Stat(lock.Path); err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("it has mode %v (error %v), want 0600", info.Mode(), err)
			}
		})
	}
}

// A process that does not see the toolkit which has the lock leaves it the lock.
func TestAToolkitOfAnotherPIDNamespaceKeepsTheLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "toolkit.pid")
	if os.Getenv("OUTRIGGER_TEST_LOCK") != "" {
		path = os.Getenv("OUTRIGGER_TEST_LOCK")
		lock := &upkeep.Lock{Path: path}
		for range 3 {
			if err := lock.Acquire(); err == nil {
				t.Error("it took the lock")
			}
		}
		return
	}
	readerLocks(t, path, os.Getpid())
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), "OUTRIGGER_TEST_LOCK="+path)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
	out, err := cmd.CombinedOutput()
	if errors.Is(err, syscall.EPERM) {
		t.Skip("only root can make a PID namespace")
	}
	if err != nil || !strings.Contains(string(out), "--- PASS") {
		t.Errorf("%v: %s", err, out)
	}
}
