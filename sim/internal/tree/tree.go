// Package tree writes a described file tree: what a simulated node shows is
// derived as plain entries first, and written here in one place.
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

// Entry is one file, folder, link or device node. Folders that lead to an
// entry need no entry of their own.
type Entry struct {
	// Path is relative to the root of the tree.
	Path string
	// Mode holds type and permissions: fs.ModeDir, fs.ModeSymlink,
	// fs.ModeDevice|fs.ModeCharDevice, or a plain file.
	Mode fs.FileMode
	// Data is the content of a plain file, unless Copy or Link is set.
	Data []byte
	// Copy names a file whose content the plain file gets.
	Copy string
	// Link names an entry, written before, that the plain file is a hard link
	// of, relative to the root of the tree.
	Link string
	// Target is where a symbolic link leads.
	Target string
	// Major and Minor number a device node.
	Major, Minor uint32
}

// File describes a plain file that everyone may read.
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

// String describes the entry in one line, as "ls -l" would.
func (e Entry) String() string {
	switch {
	case e.Mode&fs.ModeCharDevice != 0:
		return fmt.Sprintf("%s %d:%d %s", e.Mode, e.Major, e.Minor, e.Path)
	case e.Mode&fs.ModeSymlink != 0:
		return fmt.Sprintf("%s %s -> %s", e.Mode, e.Path, e.Target)
	case e.Link != "":
		return fmt.Sprintf("%s %s = %s", e.Mode, e.Path, e.Link)
	}
	return fmt.Sprintf("%s %s", e.Mode, e.Path)
}

// Write writes the entries below root in their order.
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

// chmod sets the permissions past the umask, unless the step before failed.
func chmod(path string, mode fs.FileMode, err error) error {
	if err != nil {
		return err
	}
	return os.Chmod(path, mode.Perm())
}

// Clone repeats the tree src at dst: folders and symbolic links anew, files as
// hard links, so that both trees show the same inodes.
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
