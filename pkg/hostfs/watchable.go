package hostfs

import (
	"errors"
	"fmt"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Watchable returns ErrUnwatchable if path is, or would be, on procfs or sysfs. It does not use an
// inotify instance, because a user has few.
func Watchable(path string) error {
	abs, err := filepath.Abs(path)
	if err != nil {
		return fmt.Errorf("watch %s: %w", path, err)
	}
	t := target{path: path, abs: abs}
	t.resolve()
	return watchable(path, t.deepest())
}

// watchable rejects file systems without events for inotify.
func watchable(path, dir string) error {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return nil //nolint:nilerr // the file was removed just now; the next round detects this
	}
	if st.Type == unix.PROC_SUPER_MAGIC || st.Type == unix.SYSFS_MAGIC {
		return fmt.Errorf("watch %s: %w: read it when something else reports a change", path, ErrUnwatchable)
	}
	return nil
}

// InotifyError adds the fix to an error that a limit of inotify causes.
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
