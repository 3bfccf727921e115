package container

import (
	"errors"
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// namespace is the mount namespace of a container. The open file keeps it the same namespace, even
// if the process ends and its PID is reused.
type namespace struct {
	file *os.File
	// root is the container's root user. In a user namespace, only the users of that namespace can
	// create files in file systems that were mounted there, such as /dev.
	root user
}

// user is a user and its group.
type user struct{ uid, gid int }

func (n namespace) close() error { return n.file.Close() }

// inside calls the function do in the mount namespace. The function resolves paths in the
// container's namespace. Until the container's program starts, the container's root file system
// has its host path there. Files that the function creates belong to owner.
func (n namespace) inside(owner user, do func() error) error {
	result := make(chan error, 1)
	go func() {
		// The thread is never unlocked, so it ends with the goroutine. It must not run other code.
		runtime.LockOSThread()
		result <- n.enter(owner, do)
	}()
	return <-result
}

func (n namespace) enter(owner user, do func() error) error {
	// A thread that shares its root and its working folder cannot change its mount namespace.
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return fmt.Errorf("enter the container: %w", err)
	}
	if err := unix.Setns(int(n.file.Fd()), unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("enter the container: %w (this needs CAP_SYS_ADMIN and CAP_SYS_CHROOT)", err)
	}
	if owner == (user{}) {
		return do()
	}
	// This also prevents the thread from writing to files that do not belong to the container.
	if err := errors.Join(unix.Setfsgid(owner.gid), unix.Setfsuid(owner.uid)); err != nil {
		return fmt.Errorf("become the container's root user: %w", err)
	}
	return do()
}
