// Package rootfs works inside a container's root file system. The image may be hostile: any file
// may be a link, and may change its target at any time. All paths are paths in the container. The
// kernel resolves each path relative to the file descriptor of the root, so that no link leads out
// of it. All other operations are relative to the resulting file descriptor. The package uses no
// path of the host except the argument of Open and the kernel's /proc.
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

// Root is the root folder of a container, or another folder that paths must not leave. Its methods
// are safe for concurrent use.
type Root struct {
	dir *os.File // O_PATH
	// changes is the root for changing files: dir, or the result of writable.
	changes *os.File
	// self is /proc/self/fd. It is used to open a file again with other flags.
	self *os.File
	// private has the IDs of mounts that are known not to be shared. They do not change, because no
	// other process changes mounts in the mount namespace of a container that has not started.
	private sync.Map
}

// Open opens the root file system at a path of the host, root.path of the container's config.json.
// It rejects the root of the process itself, which is the host's root.
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

// newRoot returns a Root for dir, and takes ownership of dir.
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

// tries is the number of attempts to resolve a path while files are renamed.
const tries = 128

// lookup returns a file as an O_PATH file descriptor. It follows links inside the root.
func (r *Root) lookup(name string) (*os.File, error) { return lookup(r.dir, name) }

// lookupChange is lookup for a file that will be changed.
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
			// Linux before 5.6, or a seccomp filter that does not know the call.
			f, err := pathrs.OpenatInRoot(root, name)
			return f, cause(err)
		}
		return nil, err
	}
	return nil, unix.EAGAIN
}

// check returns an error for a path that no system call accepts.
func check(name string) error {
	if name == "" || len(name) >= unix.PathMax || strings.ContainsRune(name, 0) {
		return unix.EINVAL
	}
	return nil
}

// reopen opens the file behind a file descriptor again with other flags. It does not use the path
// of the file, which may have changed.
func (r *Root) reopen(f *os.File, flags int) (*os.File, error) {
	fd, err := unix.Openat(int(r.self.Fd()), strconv.Itoa(int(f.Fd())), flags|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), f.Name()), nil
}

// parent returns the folder of a path and the last element of the path. If create is set, it
// creates the folder.
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

// mkdirAll returns a folder as an O_PATH file descriptor. It creates a missing folder with mode
// 0755.
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

// failed returns the error of an operation on a file of the container.
func failed(do, name string, err error) error {
	if err == nil {
		return nil
	}
	err = cause(err)
	switch {
	case errors.Is(err, unix.ELOOP):
		err = fmt.Errorf("%w: its path has a symbolic link into /proc, or a loop of links", err)
	case errors.Is(err, unix.EROFS):
		err = fmt.Errorf("%w: make this part of the container's file system writable", err)
	}
	return fmt.Errorf("%s %s in the container: %w", do, name, err)
}

// CannotChange reports whether an error means that no process can replace a file: its file system
// is read-only, or a file is mounted at its path.
func CannotChange(err error) bool {
	return errors.Is(err, unix.EROFS) || errors.Is(err, unix.EBUSY)
}

// cause returns the errno of an error, without the names of files on the host.
func cause(err error) error {
	if number, ok := errors.AsType[unix.Errno](err); ok {
		return number
	}
	return err
}
