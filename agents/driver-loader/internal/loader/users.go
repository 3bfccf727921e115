package loader

import (
	"context"
	"path/filepath"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"outrigger.dev/agents/driver-loader/internal/daemons"
	"outrigger.dev/pkg/holders"
)

// users returns the processes that would use the driver after a claim of NVML. They are the holders of
// devices, except the daemons of the driver, which are stopped, and agents. An agent has the file of the
// lease on NVML open, and closes the driver when NVML is claimed.
func (l *Loader) users(ctx context.Context) ([]holders.Holder, error) {
	return usersOf(func() ([]holders.Holder, error) { return l.Holders(ctx) }, func(h holders.Holder) bool {
		lease, err := statx(filepath.Join(l.cfg.Contract.Root, "leases/nvml"))
		return daemons.Known(h.Command) || err == nil && l.shares(h.PID, lease)
	})
}

// usersOf returns the holders that do not release the driver. An agent closes the driver before the lease,
// and can close both after it was found. Therefore, a user is found twice.
func usersOf(find func() ([]holders.Holder, error), releases func(holders.Holder) bool) ([]holders.Holder, error) {
	found, err := find()
	found = slices.DeleteFunc(found, releases)
	if len(found) == 0 {
		return nil, err
	}
	again, err := find()
	return slices.DeleteFunc(again, func(h holders.Holder) bool {
		return releases(h) || !slices.ContainsFunc(found, func(f holders.Holder) bool { return f.PID == h.PID })
	}), err
}

// shares reports whether a process has the lease file open.
func (l *Loader) shares(pid int, lease unix.Statx_t) bool {
	fds, err := filepath.Glob(filepath.Join(l.cfg.Kernel.Proc, strconv.Itoa(pid), "fd/*"))
	if err != nil {
		return false
	}
	return slices.ContainsFunc(fds, func(fd string) bool {
		is, err := statx(fd)
		return err == nil && is.Ino == lease.Ino && is.Dev_major == lease.Dev_major && is.Dev_minor == lease.Dev_minor
	})
}

// statx reads the inode of a file. It does not block if a network file system or a driver hangs.
func statx(path string) (s unix.Statx_t, err error) {
	return s, unix.Statx(unix.AT_FDCWD, path, unix.AT_STATX_DONT_SYNC|unix.AT_NO_AUTOMOUNT, unix.STATX_INO, &s)
}
