package rootfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// Info describes a file.
type Info struct {
	// Mode has the type and the permissions of the file.
	Mode fs.FileMode
	Size int64
	// Device and Inode identify the file.
	Device, Inode uint64
	// Rdev is the number of a device node.
	Rdev uint64
}

func infoOf(f *os.File) (Info, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return Info{}, err
	}
	return Info{Mode: modeOf(st.Mode), Size: st.Size, Device: st.Dev, Inode: st.Ino, Rdev: st.Rdev}, nil
}

// modeOf returns the mode in the form of package fs: the permissions, and the type unless the file
// is regular.
func modeOf(mode uint32) fs.FileMode {
	out := fs.FileMode(mode & 0o777)
	switch mode & unix.S_IFMT {
	case unix.S_IFREG:
	case unix.S_IFDIR:
		out |= fs.ModeDir
	case unix.S_IFLNK:
		out |= fs.ModeSymlink
	case unix.S_IFCHR:
		out |= fs.ModeDevice | fs.ModeCharDevice
	case unix.S_IFBLK:
		out |= fs.ModeDevice
	case unix.S_IFIFO:
		out |= fs.ModeNamedPipe
	case unix.S_IFSOCK:
		out |= fs.ModeSocket
	default:
		out |= fs.ModeIrregular
	}
	return out
}

// Stat returns the type, size and identity of a file. It follows links.
func (r *Root) Stat(name string) (Info, error) {
	f, err := r.lookup(name)
	if err != nil {
		return Info{}, failed("read", name, err)
	}
	defer f.Close()
	info, err := infoOf(f)
	return info, failed("read", name, err)
}

// Has reports whether a file exists. It follows links.
func (r *Root) Has(name string) bool {
	_, err := r.Stat(name)
	return err == nil
}

// OpenFile opens a regular file for reading. It rejects devices, named pipes, and files of procfs
// and sysfs, because their content depends on the reader.
func (r *Root) OpenFile(name string) (*os.File, error) {
	f, err := r.lookup(name)
	if err != nil {
		return nil, failed("open", name, err)
	}
	defer f.Close()
	regular, err := r.openRegular(f)
	return regular, failed("open", name, err)
}

func (r *Root) openRegular(f *os.File) (*os.File, error) {
	info, err := infoOf(f)
	if err != nil {
		return nil, err
	}
	if !info.Mode.IsRegular() {
		return nil, errors.New("it is not a regular file")
	}
	var fsInfo unix.Statfs_t
	if err := unix.Fstatfs(int(f.Fd()), &fsInfo); err != nil {
		return nil, err
	}
	switch fsInfo.Type {
	case unix.PROC_SUPER_MAGIC, unix.SYSFS_MAGIC, unix.DEBUGFS_MAGIC, unix.TRACEFS_MAGIC, unix.CGROUP_SUPER_MAGIC, unix.CGROUP2_SUPER_MAGIC:
		return nil, errors.New("it is a file of the kernel")
	}
	return r.reopen(f, unix.O_RDONLY|unix.O_NOCTTY)
}

// ReadFile returns the content of a regular file. It rejects a file of more than limit bytes.
func (r *Root) ReadFile(name string, limit int64) ([]byte, error) {
	f, err := r.OpenFile(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := readAll(f, limit)
	return data, failed("read", name, err)
}

func readAll(f *os.File, limit int64) ([]byte, error) {
	var b []byte
	if info, err := f.Stat(); err == nil && info.Size() <= limit {
		b = make([]byte, 0, info.Size()+1)
	}
	for {
		if len(b) == cap(b) {
			b = append(b, 0)[:len(b)]
		}
		n, err := f.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		switch {
		case int64(len(b)) > limit:
			return nil, fmt.Errorf("it is larger than %d bytes", limit)
		case errors.Is(err, io.EOF):
			return b, nil
		case err != nil:
			return nil, err
		}
	}
}

func readlinkAt(dir *os.File, base string) (string, error) {
	// Nearly all links are short, so that the buffer fits on the stack.
	var short [128]byte
	n, err := unix.Readlinkat(int(dir.Fd()), base, short[:])
	if err != nil {
		return "", err
	}
	if n < len(short) {
		return string(short[:n]), nil
	}
	long := make([]byte, unix.PathMax)
	if n, err = unix.Readlinkat(int(dir.Fd()), base, long); err != nil {
		return "", err
	}
	if n < len(long) {
		return string(long[:n]), nil
	}
	return "", unix.ENAMETOOLONG
}
