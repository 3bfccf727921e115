package install

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"outrigger.dev/pkg/hostfs"
)

// applier applies the steps of a plan.
type applier struct {
	dir     Dir
	content Content
	now     time.Time
	// before is called before each change of the disk. Tests end the process there.
	before func(change string) error
}

func (a *applier) apply(s step) error {
	switch s.action {
	case claim:
		return a.change("record that the folder was empty", func() error {
			return errors.Join(os.MkdirAll(a.dir.hidden(), 0o755), os.WriteFile(a.dir.hidden(madeName), nil, 0o644))
		})
	case discard:
		return a.change("discard "+s.name, func() error { return os.RemoveAll(a.dir.hidden(s.name)) })
	case setAside:
		return a.setAside()
	case build:
		return a.build()
	case mend:
		return a.writeFile(a.dir.hidden(a.content.id), a.fileNamed(s.name))
	case release:
		return a.change("release "+s.name, func() error { return os.Chtimes(a.dir.hidden(s.name), a.now, a.now) })
	case flip:
		return a.flip()
	default:
		return a.change("retire "+s.name, func() error { return a.retire(s.name) })
	}
}

func (a *applier) change(what string, do func() error) error {
	if a.before != nil {
		if err := a.before(what); err != nil {
			return err
		}
	}
	if err := do(); err != nil {
		return fmt.Errorf("install the tools: %s: %w%s", what, err, hint(err))
	}
	return nil
}

func hint(err error) string {
	switch {
	case errors.Is(err, unix.EROFS):
		return ": the file system is read-only, set --toolkit-install-dir to a folder that can be written and from which programs can run"
	case errors.Is(err, unix.ENOSPC):
		return ": free space on its file system"
	}
	return ""
}

func (a *applier) fileNamed(name string) file {
	return a.content.files[slices.IndexFunc(a.content.files, func(f file) bool { return f.name == name })]
}

// build creates the folder of the version. The folder gets its final name only after it is
// complete and synced to the disk.
func (a *applier) build() error {
	stage := a.dir.hidden(stagePrefix + a.content.id)
	if err := a.change("create "+stage, func() error { return os.MkdirAll(stage, 0o755) }); err != nil {
		return err
	}
	for _, f := range a.content.files {
		if err := a.writeFile(stage, f); err != nil {
			return err
		}
	}
	return a.change("show "+a.content.id, func() error {
		return errors.Join(os.Chmod(stage, 0o755), os.Rename(stage, a.dir.hidden(a.content.id)), syncDir(a.dir.hidden()))
	})
}

// writeFile writes one file of the folder of a version.
func (a *applier) writeFile(dir string, f file) error {
	path := filepath.Join(dir, f.name)
	return a.change("write "+path, func() error {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if info, err := os.Lstat(path); err == nil && !info.Mode().IsRegular() {
			// A rename cannot replace a folder.
			if err := os.RemoveAll(path); err != nil {
				return err
			}
		}
		if f.link != "" {
			if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			return os.Symlink(f.link, path)
		}
		return f.copyTo(path)
	})
}

// copyTo replaces the file at path, and verifies the result.
func (f file) copyTo(path string) error {
	from, err := f.open()
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := hostfs.Replace(path, f.mode)
	if err != nil {
		return err
	}
	if _, err = io.Copy(to, from); err == nil {
		err = to.Commit()
	}
	if err = errors.Join(err, to.Close()); err != nil {
		return err
	}
	if sum, _, err := sumOf(path); err != nil || sum != f.sum {
		return errors.Join(err, fmt.Errorf("the copy %s differs from its source, which changed meanwhile", path))
	}
	return nil
}

// flip points the link to the version, by one rename.
func (a *applier) flip() error {
	temp := a.dir.hidden(newLink)
	err := a.change("create the link", func() error { return os.Symlink(filepath.Join(hiddenName, a.content.id), temp) })
	if err != nil {
		return err
	}
	return a.change("switch the link", func() error {
		if leadsTo(a.dir.Tools()) == "" {
			err = a.displace(temp)
		} else {
			err = os.Rename(temp, a.dir.Tools())
		}
		return errors.Join(err, syncDir(string(a.dir)))
	})
}

// displace puts the link at its path, and moves a file that is already there to the path temp.
// If the file system cannot exchange two files, displace moves that file to replacedName first.
// Then the path of the link is empty for a moment.
func (a *applier) displace(temp string) error {
	err := unix.Renameat2(unix.AT_FDCWD, temp, unix.AT_FDCWD, a.dir.Tools(), unix.RENAME_EXCHANGE)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return os.Rename(temp, a.dir.Tools())
	case errors.Is(err, unix.EINVAL), errors.Is(err, unix.EXDEV), errors.Is(err, unix.ENOSYS):
		replaced := a.dir.hidden(replacedName)
		return errors.Join(os.RemoveAll(replaced), os.Rename(a.dir.Tools(), replaced), os.Rename(temp, a.dir.Tools()))
	}
	return err
}

// setAside keeps the file that the link displaced, so that Remove can restore it.
func (a *applier) setAside() error {
	displaced := a.dir.hidden(newLink)
	return a.change("keep the previous content of "+a.dir.Tools(), func() error {
		if _, err := os.Lstat(displaced); errors.Is(err, fs.ErrNotExist) {
			return nil // displace has set the file aside
		}
		return errors.Join(os.RemoveAll(a.dir.hidden(replacedName)), os.Rename(displaced, a.dir.hidden(replacedName)))
	})
}

// retire removes a version. It renames the folder first: if the process is killed, the remaining
// files count as a leftover.
func (a *applier) retire(id string) error {
	gone := a.dir.hidden(stagePrefix + id + ".old")
	if err := os.Rename(a.dir.hidden(id), gone); err != nil {
		return err
	}
	return os.RemoveAll(gone)
}

func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	err = d.Sync()
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOTSUP) {
		err = nil // this file system cannot sync folders
	}
	return errors.Join(err, d.Close())
}
