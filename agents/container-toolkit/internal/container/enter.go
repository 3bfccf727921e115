package container

import (
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// namespace is the mount namespace of a container. It stays the same one if the process
// that it was opened for ends, and another one gets its number.
type namespace struct{ file *os.File }

func (n namespace) close() error { return n.file.Close() }

// inside runs do in the mount namespace. Paths that do opens are those of the container's
// namespace, in which the container's root file system is still at its path of the host,
// as long as the container's own program has not started.
func (n namespace) inside(do func() error) error {
	result := make(chan error, 1)
	go func() {
		// The thread ends with the goroutine, since it is never unlocked: it must not run
		// anything else.
		runtime.LockOSThread()
		result <- n.enter(do)
	}()
	return <-result
}

func (n namespace) enter(do func() error) error {
	// A thread that shares its root and its working folder cannot change its namespace.
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return fmt.Errorf("enter the container: %w", err)
	}
	if err := unix.Setns(int(n.file.Fd()), unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("enter the container: %w (this needs CAP_SYS_ADMIN and CAP_SYS_CHROOT)", err)
	}
	return do()
}
