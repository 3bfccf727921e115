// Package tree writes a file tree that entries describe. A simulated node derives its content as
// plain entries, and only this package writes them.
package tree

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Entry is one file, folder, link or device node. The parents of an entry need no entries.
type Entry struct {
	// Path is relative to the root of the tree.
	Path string
	// Mode has the type and the permissions. The type is fs.ModeDir, fs.ModeSymlink,
	// fs.ModeDevice|fs.ModeCharDevice, or 0 for a plain file.
	Mode fs.FileMode
	// Data is the content of a plain file, unless Copy or Link is set.
	Data []byte
	// Copy is the path of a file whose content is copied into the plain file.
	Copy string
	// Link makes the plain file a hard link. It is the path of an earlier entry, relative to the
	// root of the tree.
	Link string
	// Target is the target of a symbolic link.
	Target string
	// Major and Minor are the numbers of a device node.
	Major, Minor uint32
}

// File describes a plain file that all users can read.
func File(path, data string) Entry { return Entry{Path: path, Mode: 0o444, Data: []byte(data)} }

// Symlink describes a symbolic link.
func Symlink(path, target string) Entry {
	return Entry{Path: path, Mode: fs.ModeSymlink | 0o777, Target: target}
}

// Dir describes a folder.
func Dir(path string) Entry { return Entry{Path: path, Mode: fs.ModeDir | 0o755} }

// CharDevice describes a character device node.
func CharDevice(path string, perm fs.FileMode, major, minor uint32) Entry {
	return Entry{Path: path, Mode: fs.ModeDevice | fs.ModeCharDevice | perm, Major: major, Minor: minor}
}

// Write writes the entries below root, in order.
func Write(root string, entries []Entry) error {
	for _, e := range entries {
		path := filepath.Join(root, e.Path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return fmt.Errorf("make folder of %s: %w", e.Path, err)
		}
		if err := e.write(root, path); err != nil {
			return err
		}
	}
	return nil
}

func (e Entry) write(root, path string) error {
	switch {
	case e.Mode.IsDir():
		return chmod(path, e.Mode, os.MkdirAll(path, 0o755))
	case e.Mode&fs.ModeSymlink != 0:
		return os.Symlink(e.Target, path)
	case e.Mode&fs.ModeCharDevice != 0:
		return e.mknod(path)
	case e.Link != "":
		return os.Link(filepath.Join(root, e.Link), path)
	case e.Copy != "":
		return e.copy(path)
	}
	return chmod(path, e.Mode, os.WriteFile(path, e.Data, 0o600))
}

func (e Entry) mknod(path string) error {
	dev := unix.Mkdev(e.Major, e.Minor)
	if err := unix.Mknod(path, unix.S_IFCHR|uint32(e.Mode.Perm()), int(dev)); err != nil {
		return fmt.Errorf("make device node %s: %w", path, err)
	}
	return chmod(path, e.Mode, nil)
}

func (e Entry) copy(path string) (err error) {
	src, err := os.Open(e.Copy)
	if err != nil {
		return fmt.Errorf("copy to %s: %w", e.Path, err)
	}
	defer src.Close()
	dst, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dst.Close()) }()
	if _, err := io.Copy(dst, src); err != nil {
		return fmt.Errorf("copy %s: %w", e.Copy, err)
	}
	return chmod(path, e.Mode, nil)
}

// chmod sets permissions regardless of the umask. If err is set, it only returns err.
func chmod(path string, mode fs.FileMode, err error) error {
	if err != nil {
		return err
	}
	return os.Chmod(path, mode.Perm())
}

// Clone copies the tree src to dst. It makes new folders and symbolic links. Files become hard
// links, so that both trees have the same inodes.
func Clone(src, dst string) error {
	return filepath.WalkDir(src, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		to := filepath.Join(dst, strings.TrimPrefix(path, src))
		switch {
		case d.IsDir():
			return os.MkdirAll(to, 0o755)
		case d.Type()&fs.ModeSymlink != 0:
			target, err := os.Readlink(path)
			if err != nil {
				return err
			}
			return os.Symlink(target, to)
		}
		return os.Link(path, to)
	})
}
