package node

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// moveTemp is the prefix of temporary files of move.
const moveTemp = ".gpu-sim-"

// move renames the path from to the path to. If the node makes its device nodes in the machine's
// /dev, that is another file system: move then makes them there under a temporary name first, so
// that they appear complete.
func move(from, to string) error {
	err := os.Rename(from, to)
	if !errors.Is(err, unix.EXDEV) {
		return err
	}
	temp := filepath.Join(filepath.Dir(to), moveTemp+filepath.Base(to))
	if err := errors.Join(os.RemoveAll(temp), copyDevices(from, temp)); err != nil {
		return errors.Join(err, os.RemoveAll(temp))
	}
	if err := os.Rename(temp, to); err != nil {
		return errors.Join(err, os.RemoveAll(temp))
	}
	return os.RemoveAll(from)
}

// discard moves a path into a folder that is removed later, so that it disappears at once.
func discard(path, into string) error {
	err := os.Rename(path, into)
	if errors.Is(err, unix.EXDEV) {
		return os.RemoveAll(path)
	}
	return err
}

// copyDevices copies a device node, or a folder of device nodes.
func copyDevices(from, to string) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		target := filepath.Join(to, name)
		var st unix.Stat_t
		if err := unix.Lstat(path, &st); err != nil {
			return fmt.Errorf("read device node %s: %w", path, err)
		}
		switch {
		case d.IsDir():
			err = os.Mkdir(target, 0o755)
		case d.Type()&fs.ModeCharDevice != 0:
			err = unix.Mknod(target, st.Mode, int(st.Rdev))
		default:
			err = errors.New("not a device node")
		}
		if err != nil {
			return fmt.Errorf("make %s: %w", target, err)
		}
		return os.Chmod(target, fs.FileMode(st.Mode&0o777))
	})
}
