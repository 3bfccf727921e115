package holders

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"outrigger.dev/pkg/hostfs"
	"outrigger.dev/pkg/procowner"
)

// Locking returns the processes that hold a lock of a file, ordered by PID. The kernel reports no
// process for an open file description lock, but each process has the locks of its open files in
// /proc/PID/fdinfo (proc_pid_fdinfo(5)). Locking sees the processes of the PID namespace of root. With
// an error it still returns the processes that it found.
func Locking(ctx context.Context, root procowner.Root, file fs.FileInfo) ([]procowner.Process, error) {
	found, err := find(ctx, root, func(dir string) ([]string, error) { return locks(dir, file) })
	if err != nil {
		err = fmt.Errorf("find the processes that lock %s: %w", file.Name(), err)
	}
	out := make([]procowner.Process, len(found))
	for i, h := range found {
		out[i] = h.Process
	}
	return out, err
}

// locks returns the descriptors of a process that lock a file. dir is the folder of the process.
func locks(dir string, file fs.FileInfo) ([]string, error) {
	entries, err := os.ReadDir(filepath.Join(dir, "fd"))
	if err != nil {
		if processEnded(err) {
			err = nil
		}
		return nil, err
	}
	var out []string
	for _, entry := range entries {
		if !isFile(filepath.Join(dir, "fd", entry.Name()), file) {
			continue
		}
		info, err := hostfs.ReadFile(filepath.Join(dir, "fdinfo", entry.Name()), maxFile)
		if err == nil && strings.Contains("\n"+string(info), "\nlock:") {
			out = append(out, entry.Name())
		}
	}
	return out, nil
}

// isFile reports whether a link of procfs leads to a file. It does not block if the file is on a network
// file system that hangs.
func isFile(link string, file fs.FileInfo) bool {
	want, ok := file.Sys().(*syscall.Stat_t)
	var s unix.Statx_t
	if !ok || unix.Statx(unix.AT_FDCWD, link, unix.AT_STATX_DONT_SYNC|unix.AT_NO_AUTOMOUNT, unix.STATX_INO, &s) != nil {
		return false
	}
	return s.Ino == want.Ino && unix.Mkdev(s.Dev_major, s.Dev_minor) == want.Dev
}
