package hostfs

import (
	"errors"
	"fmt"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Watchable returns ErrUnwatchable where path is, or would be, on procfs or
// sysfs. It takes none of the inotify instances, of which a user has few.
func Watchable(path string) error {
	abs, err := filepath.Abs(path)
	if err != nil {
		return fmt.Errorf("watch %s: %w", path, err)
	}
	t := target{path: path, abs: abs}
	t.resolve()
	return watchable(path, t.deepest())
}

// watchable refuses file systems on which inotify is silent.
func watchable(path, dir string) error {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return nil //nolint:nilerr // it went this moment; the next round sees it
	}
	if st.Type == unix.PROC_SUPER_MAGIC || st.Type == unix.SYSFS_MAGIC {
		return fmt.Errorf("watch %s: %w: read it when something else tells that it changed", path, ErrUnwatchable)
	}
	return nil
}

// InotifyError adds to an error what to do about the limits of inotify.
func InotifyError(err error) error {
	switch {
	case errors.Is(err, unix.ENOSPC):
		return fmt.Errorf("%w: raise the sysctl fs.inotify.max_user_watches", err)
	case errors.Is(err, unix.EMFILE):
		return fmt.Errorf("%w: raise the sysctl fs.inotify.max_user_instances, or the limit of open files", err)
	default:
		return err
	}
}
