package mps

import (
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"
)

// ownThread runs f on a thread that ends with it, so that f can change what belongs to a
// thread. It is never the main thread, whose namespaces other processes read as the
// namespaces of the process.
func ownThread(f func()) {
	runtime.LockOSThread()
	if unix.Gettid() != unix.Getpid() {
		f()
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		ownThread(f)
	}()
	<-done
	runtime.UnlockOSThread()
}

// bindAlone mounts a folder at another one, for this thread and the processes that it
// starts. What is mounted elsewhere later still appears for them.
func bindPrivate(dir, at string) error {
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return mountError(at, err)
	}
	if err := unix.Mount("", "/", "", unix.MS_SLAVE|unix.MS_REC, ""); err != nil {
		return mountError("/", err)
	}
	if err := unix.Mount(dir, at, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("give the daemon its shared memory: %w", mountError(at, err))
	}
	return nil
}
