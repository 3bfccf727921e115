package container

import (
	"errors"
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// namespace is the mount namespace of a container. It stays the same one if the process
// that it was opened for ends, and another one gets its number.
type namespace struct {
	file *os.File
	// root is the container's root user. In a user namespace, only its own users can make
	// files in the file systems that were mounted there, such as /dev.
	root user
}

// user is a user and its group.
type user struct{ uid, gid int }

func (n namespace) close() error { return n.file.Close() }

// inside runs do in the mount namespace. Paths that do opens are those of the container's
// namespace, in which the container's root file system is still at its path of the host,
// as long as the container's own program has not started. Files that do makes belong to
// owner.
func (n namespace) inside(owner user, do func() error) error {
	result := make(chan error, 1)
	go func() {
		// The thread ends with the goroutine, since it is never unlocked: it must not run
		// anything else.
		runtime.LockOSThread()
		result <- n.enter(owner, do)
	}()
	return <-result
}

func (n namespace) enter(owner user, do func() error) error {
	// A thread that shares its root and its working folder cannot change its namespace.
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return fmt.Errorf("enter the container: %w", err)
	}
	if err := unix.Setns(int(n.file.Fd()), unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("enter the container: %w (this needs CAP_SYS_ADMIN and CAP_SYS_CHROOT)", err)
	}
	if owner == (user{}) {
		return do()
	}
	// This also takes the right away to write to what is not the container's.
	if err := errors.Join(unix.Setfsgid(owner.gid), unix.Setfsuid(owner.uid)); err != nil {
		return fmt.Errorf("become the container's root user: %w", err)
	}
	return do()
}
