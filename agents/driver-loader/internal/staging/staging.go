// Package staging makes folders of the store appear complete or not at all. A folder is written next to its
// final place, synced, and renamed. The next process removes the unfinished folders of a killed process.
package staging

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"outrigger.dev/pkg/cause"
	"outrigger.dev/pkg/hostfs"
)

// prefix is the prefix of folders that are not complete. Readers of a store skip such names.
const prefix = ".new-"

// Stage is a folder that is being written. It holds the lock of its parent folder, so that only one process
// writes there.
type Stage struct {
	// Dir is the folder to fill.
	Dir    string
	parent string
	lock   *os.File
}

// New creates the Stage of a new folder in parent. It creates parent if necessary. It returns a Cause
// with the code StoreBusy while another process has a Stage there.
func New(parent string) (*Stage, error) {
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return nil, Explain(parent, err)
	}
	lock, err := os.OpenFile(filepath.Join(parent, ".lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, Explain(parent, err)
	}
	s := &Stage{parent: parent, lock: lock}
	if err := s.begin(); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return s, nil
}

func (s *Stage) begin() error {
	if err := hostfs.LockWrite(s.lock); errors.Is(err, hostfs.ErrLocked) {
		return cause.New(cause.StoreBusy, s.parent, "another process is writing to this folder")
	} else if err != nil {
		return fmt.Errorf("lock %s: %w", s.parent, err)
	}
	if err := s.removeUnfinished(); err != nil {
		return err
	}
	dir, err := os.MkdirTemp(s.parent, prefix)
	if err != nil {
		return Explain(s.parent, err)
	}
	s.Dir = dir
	return os.Chmod(dir, 0o755) //nolint:gosec // containers read the driver root below this folder
}

// removeUnfinished removes the folders that killed processes have left.
func (s *Stage) removeUnfinished() error {
	entries, err := os.ReadDir(s.parent)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), prefix) {
			if err := os.RemoveAll(filepath.Join(s.parent, e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

// Commit renames the folder, and returns its path. It waits until the content is on the disk. An existing
// folder with the name is replaced, atomically if the file system supports that.
func (s *Stage) Commit(name string) (string, error) {
	if err := syncAll(s.Dir); err != nil {
		return "", Explain(s.parent, err)
	}
	path := filepath.Join(s.parent, name)
	if err := replace(s.Dir, path); err != nil {
		return "", Explain(path, err)
	}
	if err := syncDir(s.parent); err != nil {
		return "", Explain(s.parent, err)
	}
	return path, s.removeUnfinished()
}

// replace moves the folder dir to path. If path has a folder, that folder moves to dir, or gets
// another name that removeUnfinished removes.
func replace(dir, path string) error {
	err := unix.Renameat2(unix.AT_FDCWD, dir, unix.AT_FDCWD, path, unix.RENAME_EXCHANGE)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) {
		err = setAside(path)
		if err == nil {
			err = os.ErrNotExist
		}
	}
	if errors.Is(err, os.ErrNotExist) {
		return os.Rename(dir, path)
	}
	return err
}

// Close removes the folder unless it was committed, and releases the lock.
func (s *Stage) Close() error {
	return errors.Join(os.RemoveAll(s.Dir), s.lock.Close())
}

// Remove removes a committed folder. Even after a crash, the folder exists completely or not at all. While
// another process writes next to it, the content stays until that process is done.
func Remove(path string) error {
	if err := setAside(path); err != nil {
		return err
	}
	stage, err := New(filepath.Dir(path))
	if cause.Is(err, cause.StoreBusy) {
		return nil
	}
	if err != nil {
		return err
	}
	return stage.Close()
}

// Complete reports whether a folder of the store with this name is complete.
func Complete(name string) bool { return !strings.HasPrefix(name, ".") }

// Explain returns a Cause if the disk is full or read-only, and otherwise err with the path. It returns nil for nil.
func Explain(path string, err error) error {
	if err == nil {
		return nil
	}
	switch code := Code(err); code {
	case cause.NoSpace:
		free := "unknown"
		var stat unix.Statfs_t
		if unix.Statfs(path, &stat) == nil {
			free = fmt.Sprintf("%d MiB", stat.Bavail*uint64(stat.Bsize)>>20) //nolint:gosec // a block size is positive
		}
		return cause.New(code, path, "the disk is full ("+free+" are free)")
	case cause.FolderReadOnly:
		return cause.New(code, path, "its file system is read-only")
	default:
		return fmt.Errorf("write %s: %w", path, err)
	}
}

// Code returns the code of the cause for an error of a file system, or "" for other errors.
func Code(err error) cause.Code {
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return cause.NoSpace
	case errors.Is(err, syscall.EROFS):
		return cause.FolderReadOnly
	default:
		return ""
	}
}

// Check returns the error of writing a small file to a folder, which it removes again.
func Check(dir string) error {
	const size = 64 << 10
	path := filepath.Join(dir, ".check")
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return Explain(dir, err)
	}
	_, err = f.Write(make([]byte, size))
	return Explain(dir, errors.Join(err, f.Sync(), f.Close(), os.Remove(path)))
}

// setAside renames a folder, if it exists, so that removeUnfinished removes it.
func setAside(path string) error {
	aside, err := os.MkdirTemp(filepath.Dir(path), prefix)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return Explain(path, err)
	}
	if err := os.Rename(path, filepath.Join(aside, "x")); err != nil && !errors.Is(err, os.ErrNotExist) {
		return errors.Join(Explain(path, err), os.Remove(aside))
	}
	return nil
}

// syncAll syncs the file system of a folder. This is one call, instead of one for each of thousands
// of files.
func syncAll(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(unix.Syncfs(int(f.Fd())), f.Close()) //nolint:gosec // a descriptor fits
}

func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
