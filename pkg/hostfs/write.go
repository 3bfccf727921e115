// Package hostfs writes files of the host atomically, reads and locks them so that other programs
// cannot block it, and watches files and folders that may appear and disappear. Agents use it to
// publish files for other programs on the node.
package hostfs

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// WriteFile writes data to path atomically: a reader sees the old file or the new one, even after a
// crash. After an error the old file is unchanged, and no temporary file remains. The folder must
// exist.
func WriteFile(path string, data []byte, mode fs.FileMode) error {
	r, err := Replace(path, mode)
	if err != nil {
		return err
	}
	if _, err := r.Write(data); err != nil {
		return errors.Join(writeError(path, err), r.Close())
	}
	return errors.Join(r.Commit(), r.Close())
}

// WriteIfChanged calls WriteFile unless the file already has this content and mode. It returns
// whether it wrote. In both cases it removes the temporary files of killed processes.
func WriteIfChanged(path string, data []byte, mode fs.FileMode) (bool, error) {
	if hasContent(path, data, mode) {
		_ = RemoveLeftovers(path) // leftovers do no harm
		return false, nil
	}
	if err := WriteFile(path, data, mode); err != nil {
		return false, err
	}
	return true, nil
}

func hasContent(path string, data []byte, mode fs.FileMode) bool {
	fi, err := os.Lstat(path)
	if err != nil || !fi.Mode().IsRegular() || fi.Mode().Perm() != mode.Perm() || fi.Size() != int64(len(data)) {
		return false
	}
	old, err := ReadFile(path, fi.Size())
	return err == nil && bytes.Equal(old, data)
}

// Replacement is the new content of a file that is not visible at its path yet. It has the write
// lock from the start, if the file system supports locks, so that the file is never visible
// unlocked. It stays open, and locked, until Close.
type Replacement struct {
	*os.File
	path  string
	shown bool
	// unlocked is the reason why the file is not locked.
	unlocked error
}

// Replace creates the Replacement of the file at path, in the same folder. It rejects a path with
// anything but a regular file, such as a device.
func Replace(path string, mode fs.FileMode) (*Replacement, error) {
	return ReplaceFrom(filepath.Dir(path), path, mode)
}

// ReplaceFrom is Replace with the temporary file in another folder of the same file system. It is
// for a folder whose files are all read by a program, independent of their names.
func ReplaceFrom(dir, path string, mode fs.FileMode) (*Replacement, error) {
	if info, err := os.Stat(path); err == nil && !info.IsDir() {
		if err := checkRegular(info); err != nil {
			return nil, fmt.Errorf("write %s: %w", path, err)
		}
	}
	_ = RemoveLeftoversIn(dir, path) // leftovers do no harm
	f, err := os.CreateTemp(dir, tempPrefix(path)+"*")
	if err != nil {
		return nil, writeError(path, err)
	}
	r := &Replacement{File: f, path: path}
	// Without a lock, RemoveLeftovers cannot see that this process is still writing.
	// RemoveLeftovers keeps the file if the file system has no locks.
	r.unlocked = LockWrite(f)
	// Chmod is needed because the umask changes the mode of open.
	if err := f.Chmod(mode.Perm()); err != nil {
		return nil, errors.Join(writeError(path, err), r.Close())
	}
	return r, nil
}

// Locked returns nil if the file has the write lock. Otherwise it returns the reason: the file
// system does not support locks.
func (r *Replacement) Locked() error { return r.unlocked }

// Commit makes the file visible at its path, and durable.
func (r *Replacement) Commit() error {
	if err := r.Sync(); err != nil {
		return writeError(r.path, err)
	}
	if err := r.Show(); err != nil {
		return err
	}
	if err := syncDir(filepath.Dir(r.path)); err != nil {
		return writeError(r.path, err)
	}
	return nil
}

// Show makes the whole file visible at its path at once. It does not wait for the disk: after a
// crash of the machine the file may be the old one, empty or missing. It is for files that are
// valid only until the next boot.
func (r *Replacement) Show() error {
	if err := os.Rename(r.Name(), r.path); err != nil {
		return writeError(r.path, err)
	}
	r.shown = true
	return nil
}

// ShowNew is Show for a path without a file. It returns an error that wraps fs.ErrExist if a file
// exists.
func (r *Replacement) ShowNew() error {
	if err := unix.Renameat2(unix.AT_FDCWD, r.Name(), unix.AT_FDCWD, r.path, unix.RENAME_NOREPLACE); err != nil {
		return writeError(r.path, err)
	}
	r.shown = true
	return nil
}

// Close closes the file, and removes it unless it was shown.
func (r *Replacement) Close() error {
	var err error
	if !r.shown {
		err = os.Remove(r.Name())
	}
	return errors.Join(err, r.File.Close())
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = d.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOTSUP) {
		// This file system cannot sync folders. The rename itself has taken effect.
		err = nil
	}
	return errors.Join(err, d.Close())
}

// writeError names the file and, if it is known, the fix. It does not name the temporary file,
// because its name differs each time, and a caller that logs an error only once could not see that
// two errors are equal.
func writeError(path string, err error) error {
	err = cause(err)
	if hint := writeFix(path, err); hint != "" {
		return fmt.Errorf("write %s: %w: %s", path, err, hint)
	}
	return fmt.Errorf("write %s: %w", path, err)
}

// cause returns err without the name of a file.
func cause(err error) error {
	var file *fs.PathError
	var link *os.LinkError
	switch {
	case errors.As(err, &file):
		return file.Err
	case errors.As(err, &link):
		return link.Err
	default:
		return err
	}
}

func writeFix(path string, err error) string {
	dir := filepath.Dir(path)
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return "free space (or inodes) on the file system of " + dir
	case errors.Is(err, syscall.EROFS):
		return "mount " + dir + " read-write"
	case errors.Is(err, fs.ErrPermission):
		return "let this process write in " + dir
	case errors.Is(err, fs.ErrNotExist):
		return "create or mount the folder " + dir
	case errors.Is(err, syscall.ENOTDIR):
		return dir + " must be a folder"
	case errors.Is(err, syscall.EISDIR), errors.Is(err, fs.ErrExist):
		return "remove the folder at the path of the file"
	default:
		return ""
	}
}
