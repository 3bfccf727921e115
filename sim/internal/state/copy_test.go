package state_test

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"gotest.tools/v3/assert"

	"outrigger.dev/sim/internal/state"
)

// A CDI spec mounts the state read-only into a container, also into a privileged one.
func TestAProcessThatMayMountWritesAStateThatIsMountedReadOnly(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("this machine has no right to mount: the test needs root")
	}
	path := create(t, state.NewSpec("l4", 1)).Path()
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // the thread, which has mounts of its own then, ends with this function
		done <- writeReadOnly(path)
	}()
	assert.NilError(t, <-done)
	s, err := state.Open(path)
	assert.NilError(t, err)
	defer s.Close()
	assert.Equal(t, s.Show().Latency, time.Millisecond)
}

// writeReadOnly mounts the state read-only for this thread, and changes it.
func writeReadOnly(path string) error {
	mount := filepath.Dir(path)
	err := errors.Join(
		unix.Unshare(unix.CLONE_NEWNS),
		unix.Mount("", "/", "", unix.MS_PRIVATE|unix.MS_REC, ""),
		unix.Mount(mount, mount, "", unix.MS_BIND, ""),
		unix.Mount("", mount, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, ""))
	if err != nil {
		return err
	}
	if _, err := os.OpenFile(path, os.O_RDWR, 0); !errors.Is(err, unix.EROFS) {
		return errors.Join(errors.New("the mount is not read-only"), err)
	}
	s, err := state.Open(path)
	if err != nil {
		return err
	}
	_, still := os.OpenFile(path, os.O_RDWR, 0)
	if !errors.Is(still, unix.EROFS) {
		return errors.New("the mount has become writable for others")
	}
	return errors.Join(s.SetLatency(time.Millisecond), s.Close())
}
