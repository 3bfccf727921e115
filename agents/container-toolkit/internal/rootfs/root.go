// Package rootfs works inside a container's root file system while an image may be
// hostile: any file may be a link, also to another one a moment later. Paths are paths
// in the container. The kernel resolves each against the root's file descriptor, so that
// no link leads out of it, and the rest is done relative to the file descriptor that it
// returned. The package has no path of the host, except the one that Open takes.
package rootfs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"
	"sync"

	pathrs "github.com/cyphar/filepath-securejoin/pathrs-lite"
	"golang.org/x/sys/unix"
)

// Root is the root folder of a container, or another folder that must not be left. Its
// methods can be used by several goroutines.
type Root struct {
	dir *os.File // O_PATH
	// changes is the root through which files are changed: dir, or what writable returns.
	changes *os.File
	// self is /proc/self/fd, through which a file is opened again with other flags.
	self *os.File
	// private has the numbers of mounts that are known not to be shared: nobody else changes
	// mounts in the mount namespace of a container that has not started.
	private sync.Map
}

// Open opens the root file system that is at a path of the host: root.path of the
// container's config.json. It rejects the root of the process itself, which is the host's.
func Open(hostPath string) (*Root, error) {
	dir, err := openHost(hostPath)
	if err != nil {
		return nil, fmt.Errorf("open the container's root file system: %w", err)
	}
	r, err := newRoot(dir)
	if err != nil {
		return nil, err
	}
	if own, err := isOwnRoot(dir); err != nil || own {
		return nil, errors.Join(fmt.Errorf("open the container's root file system: %s is the host's own root; check root.path in config.json", hostPath), err, r.Close())
	}
	if f := writable(dir); f != nil {
		r.changes = f
	}
	return r, nil
}

// newRoot returns the root that dir is, and owns dir.
func newRoot(dir *os.File) (*Root, error) {
	self, err := openSelf()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open /proc/self/fd: %w", err), dir.Close())
	}
	return &Root{dir: dir, changes: dir, self: self}, nil
}

// Close releases the root.
func (r *Root) Close() error {
	err := errors.Join(r.dir.Close(), r.self.Close())
	if r.changes != r.dir {
		err = errors.Join(err, r.changes.Close())
	}
	return err
}

// tries is how often a path is resolved again after something was renamed meanwhile.
const tries = 128

// lookup returns a file as an O_PATH file descriptor: of no use but to name it. It
// follows links, inside the root.
func (r *Root) lookup(name string) (*os.File, error) { return lookup(r.dir, name) }

// lookupChange does so for a file that is to be changed.
func (r *Root) lookupChange(name string) (*os.File, error) { return lookup(r.changes, name) }

func lookup(root *os.File, name string) (*os.File, error) {
	if err := check(name); err != nil {
		return nil, err
	}
	how := unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS,
	}
	for range tries {
		fd, err := unix.Openat2(int(root.Fd()), name, &how)
		switch {
		case err == nil:
			return os.NewFile(uintptr(fd), name), nil
		case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.ENOSYS), errors.Is(err, unix.EPERM):
			// Before Linux 5.6, or below a seccomp filter that does not know the call.
			f, err := pathrs.OpenatInRoot(root, name)
			return f, cause(err)
		}
		return nil, err
	}
	return nil, unix.EAGAIN
}

// check returns an error for a path that no system call takes.
func check(name string) error {
	if name == "" || len(name) >= unix.PathMax || strings.ContainsRune(name, 0) {
		return unix.EINVAL
	}
	return nil
}

// reopen opens the file of an O_PATH file descriptor, or of one with other flags. What
// is at its path by now does not matter.
func (r *Root) reopen(f *os.File, flags int) (*os.File, error) {
	fd, err := unix.Openat(int(r.self.Fd()), strconv.Itoa(int(f.Fd())), flags|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), f.Name()), nil
}

// parent returns the folder of a path, which it creates if create is set, and the last
// element of the path.
func (r *Root) parent(name string, create bool) (*os.File, string, error) {
	dir, base := path.Split(path.Clean("/" + name))
	if base == "" {
		return nil, "", unix.EISDIR
	}
	open := r.lookupChange
	if create {
		open = r.mkdirAll
	}
	f, err := open(dir)
	return f, base, err
}

// mkdirAll returns a folder as an O_PATH file descriptor, and creates it with mode 0755
// if it is missing.
func (r *Root) mkdirAll(name string) (*os.File, error) {
	f, err := r.lookupChange(name)
	if errors.Is(err, fs.ErrNotExist) {
		f, err = pathrs.MkdirAllHandle(r.changes, name, 0o755)
		err = cause(err)
	}
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.IsDir() {
		err = unix.ENOTDIR
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// failed returns the error of something that was to be done with a file of the container.
func failed(do, name string, err error) error {
	if err == nil {
		return nil
	}
	err = cause(err)
	switch {
	case errors.Is(err, unix.ELOOP):
		err = fmt.Errorf("%w: a link in its path leads into /proc, or in a circle", err)
	case errors.Is(err, unix.EROFS):
		err = fmt.Errorf("%w: mount what is there so that the container can write to it", err)
	}
	return fmt.Errorf("%s %s in the container: %w", do, name, err)
}

// CannotChange reports whether an error says that a file cannot be replaced by anybody: its
// file system is read-only, or something is mounted in its place.
func CannotChange(err error) bool {
	return errors.Is(err, unix.EROFS) || errors.Is(err, unix.EBUSY)
}

// cause returns the number of the system's error without the names of files on the host.
func cause(err error) error {
	if number, ok := errors.AsType[unix.Errno](err); ok {
		return number
	}
	return err
}
