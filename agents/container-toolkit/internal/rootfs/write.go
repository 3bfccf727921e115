package rootfs

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// MkdirAll creates a folder and its missing parents with mode 0755.
func (r *Root) MkdirAll(name string) error {
	f, err := r.mkdirAll(name)
	if err != nil {
		return failed("create folder", name, err)
	}
	return f.Close()
}

// WriteFile replaces a file, or a link at its path, atomically, and creates its folder. It does not
// write if the file already has this content and mode. It does not sync, because a container does
// not survive a crash of the host.
func (r *Root) WriteFile(name string, data []byte, mode fs.FileMode) error {
	dir, base, err := r.parent(name, true)
	if err != nil {
		return failed("write", name, err)
	}
	defer dir.Close()
	if r.hasContent(dir, base, data, mode) {
		return nil
	}
	return failed("write", name, r.replace(dir, base, func(temporary string) error {
		return writeNew(dir, temporary, data, mode)
	}))
}

// hasContent reports whether base is a regular file that already has the content and the mode.
func (r *Root) hasContent(dir *os.File, base string, data []byte, mode fs.FileMode) bool {
	d := Dir{root: r, file: dir}
	f, err := d.Open(base)
	if err != nil {
		return false
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || info.Mode() != mode || info.Size() != int64(len(data)) {
		return false
	}
	old, err := readAll(f, int64(len(data)))
	return err == nil && bytes.Equal(old, data)
}

// replace calls create with a temporary name, and renames the result to base. The temporary name is
// always the same, so that the next call removes the file of a process that was killed.
func (r *Root) replace(dir *os.File, base string, create func(temporary string) error) error {
	temporary := "." + base[:min(len(base), 200)] + ".nvidia-tmp"
	fd := int(dir.Fd())
	if err := unix.Unlinkat(fd, temporary, 0); err != nil && !errors.Is(err, unix.ENOENT) {
		return err
	}
	err := create(temporary)
	if err == nil {
		err = unix.Renameat(fd, temporary, fd, base)
	}
	if err != nil {
		// The file does not exist if create failed at once.
		_ = unix.Unlinkat(fd, temporary, 0)
	}
	return err
}

func writeNew(dir *os.File, name string, data []byte, mode fs.FileMode) error {
	fd, err := unix.Openat(int(dir.Fd()), name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), name)
	_, err = f.Write(data)
	return errors.Join(err, f.Chmod(mode), f.Close())
}

// Remove removes a file or a link. It succeeds if the path does not exist.
func (r *Root) Remove(name string) error {
	dir, base, err := r.parent(name, false)
	if err == nil {
		defer dir.Close()
		// On a read-only file system, unlinkat fails even if the file does not exist.
		var st unix.Stat_t
		err = unix.Fstatat(int(dir.Fd()), base, &st, unix.AT_SYMLINK_NOFOLLOW)
		if err == nil {
			err = unix.Unlinkat(int(dir.Fd()), base, 0)
		}
	}
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) {
		return nil
	}
	return failed("remove", name, err)
}

// Symlink creates a link to target, and the folder of the link. It replaces a file at the path of
// the link, and keeps a link that has the same target.
func (r *Root) Symlink(target, link string) error {
	dir, base, err := r.parent(link, true)
	if err != nil {
		return failed("create link", link, err)
	}
	defer dir.Close()
	return failed("create link", link, r.symlinkAt(dir, target, base))
}

func (r *Root) symlinkAt(dir *os.File, target, base string) error {
	if err := check(target); err != nil {
		return err
	}
	err := unix.Symlinkat(target, int(dir.Fd()), base)
	if !errors.Is(err, unix.EEXIST) {
		return err
	}
	if present, err := readlinkAt(dir, base); err == nil && present == target {
		return nil
	}
	return r.replace(dir, base, func(temporary string) error {
		return unix.Symlinkat(target, int(dir.Fd()), temporary)
	})
}

// chmod sets the permissions of the file behind an O_PATH file descriptor.
func (r *Root) chmod(f *os.File, mode fs.FileMode) error {
	return unix.Fchmodat(int(r.self.Fd()), strconv.Itoa(int(f.Fd())), uint32(mode.Perm()), 0)
}

// ChmodDir sets the permissions of a folder. It rejects a folder of a mounted volume, because the
// volume belongs to the host. Only the root file system and a tmpfs, such as /dev, belong to the
// container.
func (r *Root) ChmodDir(name string, mode fs.FileMode) error {
	f, err := r.lookupChange(name)
	if err != nil {
		return failed("change mode of", name, err)
	}
	defer f.Close()
	info, err := infoOf(f)
	if err != nil {
		return failed("change mode of", name, err)
	}
	if !info.Mode.IsDir() {
		return failed("change mode of", name, errors.New("it is not a folder"))
	}
	if info.Mode.Perm() == mode.Perm() {
		return nil
	}
	root, err := infoOf(r.dir)
	if err != nil {
		return failed("change mode of", name, err)
	}
	var fsInfo unix.Statfs_t
	if err := unix.Fstatfs(int(f.Fd()), &fsInfo); err != nil {
		return failed("change mode of", name, err)
	}
	if info.Device != root.Device && fsInfo.Type != unix.TMPFS_MAGIC {
		return failed("change mode of", name, errors.New("it is on a volume"))
	}
	return failed("change mode of", name, r.chmod(f, mode))
}
