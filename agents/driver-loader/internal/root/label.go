package root

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"outrigger.dev/pkg/hostfs"
)

const (
	// labelName is the extended attribute with the label of SELinux.
	labelName = "security.selinux"
	// containerLabel is the label of files that all containers may read. NVIDIA's driver container sets its
	// type, container_file_t.
	containerLabel = "system_u:object_r:container_file_t:s0"
)

// label labels the files of a driver root as content of containers, if SELinux is enforcing. Otherwise,
// containers could not read the libraries of the driver.
func (d Driver) label(from string) error {
	enforcing, err := hostfs.ReadFile(filepath.Join(d.Sys, "fs/selinux/enforce"), 16)
	if err != nil || strings.TrimSpace(string(enforcing)) != "1" {
		return nil //nolint:nilerr // a kernel without SELinux has no such file
	}
	err = filepath.WalkDir(from, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return relabel(path)
	})
	if err != nil {
		return fmt.Errorf("label the driver root for SELinux: %w", err)
	}
	return nil
}

// relabel sets the label of a file. A file system without labels has one label for all files, which is set
// when it is mounted.
func relabel(path string) error {
	is := make([]byte, 256)
	n, err := unix.Lgetxattr(path, labelName, is)
	if err == nil && strings.TrimRight(string(is[:n]), "\x00") == containerLabel {
		return nil
	}
	err = unix.Lsetxattr(path, labelName, []byte(containerLabel), 0)
	if err == nil || errors.Is(err, unix.EOPNOTSUPP) {
		return nil
	}
	return &fs.PathError{Op: "set the label of", Path: path, Err: err}
}
