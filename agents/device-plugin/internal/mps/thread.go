package mps

import (
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"
)

// ownThread runs f on a thread that ends after f, so that f can change properties of the thread.
// It never uses the main thread, because other processes read its namespaces as the namespaces of
// the process.
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

// bindPrivate mounts a folder at another path, only for this thread and the processes that it
// starts. The thread and the processes still see later mounts of the host.
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
