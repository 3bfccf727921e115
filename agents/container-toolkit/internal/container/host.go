package container

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"outrigger.dev/pkg/driverroot"
)

// This file opens all paths of the host. The linter forbids paths in the package's other files.

// openSource opens a file of the host for mounting. It rejects a link, because a link means that
// the file was replaced after it was found.
func openSource(path string) (f *os.File, dir bool, err error) {
	f, err = os.OpenFile(path, unix.O_PATH|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, false, err
	}
	info, err := f.Stat()
	if err == nil && info.Mode()&fs.ModeSymlink != 0 {
		err = fmt.Errorf("open %s: it was replaced by a symbolic link", path)
	}
	if err != nil {
		return nil, false, errors.Join(err, f.Close())
	}
	return f, info.IsDir(), nil
}

// openNamespace opens the mount namespace of a process.
func openNamespace(proc string, pid int) (namespace, error) {
	process := filepath.Join(proc, strconv.Itoa(pid))
	root, err := rootUser(proc, process)
	if err != nil {
		return namespace{}, fmt.Errorf("find the root user of process %d: %w", pid, err)
	}
	f, err := os.Open(filepath.Join(process, "ns/mnt"))
	if err != nil {
		return namespace{}, fmt.Errorf("open mount namespace of process %d: %w", pid, err)
	}
	return namespace{file: f, root: root}, nil
}

// rootUser returns the host's IDs of the root user in the user namespace of a process. It returns
// the zero user if the process is in this program's user namespace.
func rootUser(proc, process string) (user, error) {
	own, err := os.Readlink(filepath.Join(proc, "self/ns/user"))
	if err != nil {
		return user{}, err
	}
	its, err := os.Readlink(filepath.Join(process, "ns/user"))
	if err != nil || its == own {
		return user{}, err
	}
	uid, err := firstID(filepath.Join(process, "uid_map"))
	if err != nil {
		return user{}, err
	}
	gid, err := firstID(filepath.Join(process, "gid_map"))
	return user{uid: uid, gid: gid}, err
}

// firstID returns the outside ID for ID 0 of a user namespace.
func firstID(file string) (int, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(data)) {
		var inside, outside, count int
		if n, err := fmt.Sscan(line, &inside, &outside, &count); n == 3 && err == nil && inside == 0 && count > 0 {
			return outside, nil
		}
	}
	return 0, fmt.Errorf("%s maps no ID to 0", file)
}

// exists reports whether a path exists.
func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// replaceMPSFolder replaces the default folder of MPS pipes by the configured folder.
func replaceMPSFolder(c *driverroot.Content, folder string) error {
	info, err := os.Lstat(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil && !info.IsDir() {
		err = unix.ENOTDIR
	}
	if err != nil {
		return fmt.Errorf("mount CUDA_MPS_PIPE_DIRECTORY: %w", err)
	}
	kept := make([]driverroot.File, 0, len(c.Sockets)+1)
	for _, f := range c.Sockets {
		if f.Capabilities != driverroot.Compute {
			kept = append(kept, f)
		}
	}
	c.Sockets = append(kept, driverroot.File{HostPath: folder, Path: folder, Capabilities: driverroot.Compute})
	return nil
}
