package rootfs

import (
	"errors"
	"os"
	"strconv"

	"github.com/cyphar/filepath-securejoin/pathrs-lite/procfs"
	"golang.org/x/sys/unix"
)

// This file has all paths of the host that the package uses: the argument of Open, and paths of the
// kernel's /proc. The linter forbids paths in the package's other files.

func openHost(path string) (*os.File, error) {
	return os.OpenFile(path, unix.O_PATH|unix.O_DIRECTORY, 0)
}

// isOwnRoot reports whether a folder is the root folder of this process.
func isOwnRoot(dir *os.File) (bool, error) {
	own, err := os.Stat("/")
	if err != nil {
		return false, err
	}
	info, err := dir.Stat()
	return err == nil && os.SameFile(own, info), err
}

// openSelf opens /proc/self/fd in a new procfs, so that no process can have mounted over it.
func openSelf() (*os.File, error) {
	proc, err := procfs.OpenProcRoot()
	if err != nil {
		return nil, err
	}
	self, err := proc.OpenSelf("fd/")
	return self, errors.Join(err, proc.Close())
}

// procPath returns the path of a file descriptor, for system calls that only take a path.
func procPath(f *os.File) string { return "/proc/thread-self/fd/" + strconv.Itoa(int(f.Fd())) }

// setMountFlags changes the flags of the mount whose root is f.
func setMountFlags(f *os.File, flags uintptr) error {
	return unix.Mount("", procPath(f), "", flags, "")
}

// unmount detaches the mount whose root is f.
func unmount(f *os.File) error { return unix.Unmount(procPath(f), unix.MNT_DETACH) }

// onHost reports whether the calling thread is in the mount namespace of process 1.
func onHost() bool {
	own, err := os.Readlink("/proc/thread-self/ns/mnt")
	if err != nil {
		return true
	}
	// A process that cannot read the link cannot mount in that namespace.
	host, err := os.Readlink("/proc/1/ns/mnt")
	return err == nil && own == host
}
