package root_test

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	"gotest.tools/v3/assert"

	"outrigger.dev/agents/driver-loader/internal/root"
	"outrigger.dev/pkg/cause"
)

// alone runs f in a mount namespace of its own, in which /proc/1 is of another one.
func alone(t *testing.T, f func()) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can mount")
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		// Never unlocked: the thread ends with the goroutine, and its mounts with it.
		runtime.LockOSThread()
		if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
			t.Error(err)
			return
		}
		if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
			t.Error(err)
			return
		}
		f()
	}()
	<-done
}

// shared returns a folder whose mounts are shared, as that of a pod with Bidirectional.
func shared(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, flags := range []uintptr{unix.MS_BIND, unix.MS_SHARED} {
		if err := unix.Mount(dir, dir, "", flags, ""); err != nil {
			t.Error(err)
		}
	}
	return dir
}

func write(t *testing.T, path, text string) {
	t.Helper()
	assert.NilError(t, os.MkdirAll(filepath.Dir(path), 0o700))
	assert.NilError(t, os.WriteFile(path, []byte(text), 0o600))
}

func TestShowReplacesWhatIsThere(t *testing.T) {
	one, two := t.TempDir(), t.TempDir()
	write(t, filepath.Join(one, "version"), "1")
	write(t, filepath.Join(two, "version"), "2")
	alone(t, func() {
		d := root.Driver{At: filepath.Join(shared(t), "a driver"), Proc: "/proc"}
		if is, err := d.Shown(one); err != nil || is {
			t.Errorf("before: %v, %v", is, err)
		}
		// What another program has left, twice.
		for _, from := range []string{two, two, one} {
			if err := d.Show(from); err != nil {
				t.Error(err)
			}
		}
		if err := unix.Mount(two, d.At, "", unix.MS_BIND, ""); err != nil {
			t.Error(err)
		}
		if is, err := d.Shown(one); err != nil || is {
			t.Errorf("below another mount: %v, %v", is, err)
		}
		if err := d.Show(one); err != nil {
			t.Error(err)
		}
		if is, err := d.Shown(one); err != nil || !is {
			t.Errorf("after: %v, %v", is, err)
		}
		if err := os.WriteFile(filepath.Join(d.At, "version"), []byte("3"), 0o600); !errors.Is(err, unix.EROFS) {
			t.Errorf("write to the driver: %v", err)
		}
		if err := d.Hide(); err != nil {
			t.Error(err)
		}
		if is, err := d.Shown(one); err != nil || is {
			t.Errorf("hidden: %v, %v", is, err)
		}
		if _, err := os.Stat(filepath.Join(d.At, "version")); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("a mount is left: %v", err)
		}
	})
}

// Both the store and the driver's place can be on shared mounts, as on a host with systemd.
func TestAForeignMountDoesNotReachTheStore(t *testing.T) {
	other := t.TempDir()
	alone(t, func() {
		from := filepath.Join(shared(t), "driver")
		write(t, filepath.Join(from, "version"), "1")
		d := root.Driver{At: filepath.Join(shared(t), "driver"), Proc: "/proc"}
		if err := d.Show(from); err != nil {
			t.Error(err)
		}
		if err := unix.Mount(other, d.At, "", unix.MS_BIND, ""); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(filepath.Join(from, "version")); err != nil {
			t.Errorf("the store has the foreign mount: %v", err)
		}
		if is, err := d.Shown(from); err != nil || is {
			t.Errorf("the foreign mount is not noticed: %v, %v", is, err)
		}
		if err := d.Hide(); err != nil {
			t.Error(err)
		}
	})
}

func TestTheDriverRootHasALabelForContainers(t *testing.T) {
	for name, tc := range map[string]struct {
		enforce string
		labeled bool
	}{
		"SELinux is enforcing":  {"1", true},
		"SELinux is permissive": {"0", false},
		"there is no SELinux":   {"", false},
	} {
		t.Run(name, func(t *testing.T) {
			from, sys := t.TempDir(), t.TempDir()
			write(t, filepath.Join(from, "usr/lib/libcuda.so.1"), "")
			assert.NilError(t, os.Symlink("libcuda.so.1", filepath.Join(from, "usr/lib/libcuda.so")))
			if tc.enforce != "" {
				write(t, filepath.Join(sys, "fs/selinux/enforce"), tc.enforce)
			}
			alone(t, func() {
				d := root.Driver{At: filepath.Join(shared(t), "driver"), Proc: "/proc", Sys: sys}
				if err := errors.Join(d.Show(from), d.Hide()); err != nil {
					t.Error(err)
				}
			})
			for _, file := range []string{"", "usr/lib/libcuda.so.1", "usr/lib/libcuda.so"} {
				label := make([]byte, 100)
				n, err := unix.Lgetxattr(filepath.Join(from, file), "security.selinux", label)
				if got := string(label[:max(n, 0)]) == "system_u:object_r:container_file_t:s0"; got != tc.labeled {
					t.Errorf("%q: label %q, %v", file, label[:max(n, 0)], err)
				}
			}
		})
	}
}

// The other folder cannot get labels, as on a full disk.
func TestAFolderWithoutLabelsDoesNotReplaceTheShownOne(t *testing.T) {
	one, sys := t.TempDir(), t.TempDir()
	write(t, filepath.Join(sys, "fs/selinux/enforce"), "1")
	alone(t, func() {
		d := root.Driver{At: filepath.Join(shared(t), "driver"), Proc: "/proc", Sys: sys}
		if err := d.Show(one); err != nil {
			t.Error(err)
		}
		two := shared(t)
		if err := unix.Mount("", two, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
			t.Error(err)
		}
		if err := d.Show(two); !errors.Is(err, unix.EROFS) {
			t.Errorf("show the other folder: %v", err)
		}
		if is, err := d.Shown(one); err != nil || !is {
			t.Errorf("the previous folder is shown: %v, %v", is, err)
		}
		if err := d.Hide(); err != nil {
			t.Error(err)
		}
	})
}

func TestAMountThatNobodyWouldSee(t *testing.T) {
	from := t.TempDir()
	at := filepath.Join(t.TempDir(), "driver")
	alone(t, func() {
		err := root.Driver{At: at, Proc: "/proc"}.Show(from)
		var c cause.Cause
		if !errors.As(err, &c) || c.Code != cause.MountNotShared || !strings.Contains(c.Fix, "mountPropagation: Bidirectional") {
			t.Error(err)
		}
		if _, err := os.Stat(at); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the folder was made: %v", err)
		}
	})
}

func TestFirmware(t *testing.T) {
	sys := t.TempDir()
	d := root.Driver{At: "/run/nvidia/driver", Sys: sys}
	assert.NilError(t, d.Firmware(), "a kernel without the parameter")
	path := filepath.Join(sys, "module/firmware_class/parameters/path")
	for name, tc := range map[string]struct{ is, want, code string }{
		"none is set":         {"\n", "/run/nvidia/driver/lib/firmware", ""},
		"the driver's is set": {"/run/nvidia/driver/lib/firmware\n", "/run/nvidia/driver/lib/firmware\n", ""},
		"another one is set":  {"/opt/firmware\n", "/opt/firmware\n", string(cause.FirmwarePathTaken)},
	} {
		t.Run(name, func(t *testing.T) {
			write(t, path, tc.is)
			err := d.Firmware()
			var c cause.Cause
			if errors.As(err, &c); string(c.Code) != tc.code {
				t.Error(err)
			}
			if got, err := os.ReadFile(path); err != nil || string(got) != tc.want {
				t.Errorf("%q, %v", got, err)
			}
		})
	}
}
