package rootfs

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Dir is an open folder of the container. It stays the same folder even if its path is replaced.
// Its methods take the names of entries, and do not follow links.
type Dir struct {
	root *Root
	file *os.File
}

// Dir opens a folder. It follows links.
func (r *Root) Dir(name string) (*Dir, error) {
	f, err := r.lookup(name)
	if err != nil {
		return nil, failed("open folder", name, err)
	}
	defer f.Close()
	dir, err := r.reopen(f, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return nil, failed("open folder", name, err)
	}
	return &Dir{root: r, file: dir}, nil
}

// Close releases the folder.
func (d *Dir) Close() error { return d.file.Close() }

// Entry is an entry of a folder.
type Entry struct {
	Name string
	// Link is set for a symbolic link.
	Link bool
}

// Entries returns the entries of the folder, unordered. It rejects a folder with more than limit
// entries.
func (d *Dir) Entries(limit int) ([]Entry, error) {
	if _, err := d.file.Seek(0, io.SeekStart); err != nil {
		return nil, cause(err)
	}
	var out []Entry
	b := make([]byte, 32<<10)
	for {
		n, err := unix.Getdents(int(d.file.Fd()), b)
		if err != nil {
			return nil, err
		}
		if n <= 0 {
			return out, nil
		}
		for rest := b[:n]; len(rest) > 0; {
			var e Entry
			var ok bool
			if e, rest, ok = d.next(rest); ok {
				out = append(out, e)
			}
		}
		if len(out) > limit {
			return nil, fmt.Errorf("the folder has more than %d entries", limit)
		}
	}
}

// next decodes one entry of getdents64(2), and returns the remaining bytes. It returns false for
// "." and "..". Package os cannot be used here: on some file systems, it looks at the path of an
// entry to find its type.
func (d *Dir) next(b []byte) (Entry, []byte, bool) {
	const header = 19
	size := int(binary.NativeEndian.Uint16(b[16:]))
	name, _, _ := bytes.Cut(b[header:size], []byte{0})
	e := Entry{Name: string(name), Link: b[18] == unix.DT_LNK}
	if e.Name == "." || e.Name == ".." {
		return Entry{}, b[size:], false
	}
	if b[18] == unix.DT_UNKNOWN {
		_, err := d.Readlink(e.Name)
		e.Link = err == nil
	}
	return e, b[size:], true
}

// Names returns the names of the entries, sorted. It rejects a folder with more than limit entries.
func (d *Dir) Names(limit int) ([]string, error) {
	entries, err := d.Entries(limit)
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		names = append(names, e.Name)
	}
	slices.Sort(names)
	return names, err
}

// entry opens an entry of the folder with O_PATH. It does not follow a link.
func (d *Dir) entry(name string) (*os.File, error) {
	if name == "" || name == "." || name == ".." || strings.ContainsAny(name, "/\x00") {
		return nil, unix.EINVAL
	}
	fd, err := unix.Openat(int(d.file.Fd()), name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), name), nil
}

// Stat returns the type, size and identity of an entry.
func (d *Dir) Stat(name string) (Info, error) {
	f, err := d.entry(name)
	if err != nil {
		return Info{}, failed("read", name, err)
	}
	defer f.Close()
	info, err := infoOf(f)
	return info, failed("read", name, err)
}

// Open opens a regular file of the folder with the checks of Root.OpenFile.
func (d *Dir) Open(name string) (*os.File, error) {
	f, err := d.entry(name)
	if err != nil {
		return nil, failed("open", name, err)
	}
	defer f.Close()
	regular, err := d.root.openRegular(f)
	return regular, failed("open", name, err)
}

// Mounted reports whether an entry of the folder is the root of a mount, which means that it was
// mounted for this container and is not part of the image. Before Linux 5.8, it is always false.
func (d *Dir) Mounted(name string) bool {
	var st unix.Statx_t
	err := unix.Statx(int(d.file.Fd()), name, unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT, 0, &st)
	return err == nil && st.Attributes_mask&st.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0
}

// Readlink returns the target of a link in the folder.
func (d *Dir) Readlink(name string) (string, error) {
	target, err := readlinkAt(d.file, name)
	return target, failed("read link", name, err)
}

// Symlink creates a link in the folder. It replaces a file with this name, and keeps a link that
// has the same target.
func (d *Dir) Symlink(target, name string) error {
	return failed("create link", name, d.root.symlinkAt(d.file, target, name))
}
