// Package driverproc reads the files of the loaded NVIDIA kernel driver in /proc: its version, its
// GPUs, and the capabilities that grant access to MIG instances. It needs neither NVML nor C.
// Static programs can use it, and agents can use it while NVML does not answer.
package driverproc

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"sync"

	"golang.org/x/sys/unix"
)

// Root is the folder of the host's /proc. Empty means "/proc".
type Root string

// path returns the path of a file below the root.
func (r Root) path(elem ...string) string {
	root := string(r)
	if root == "" {
		root = "/proc"
	}
	return filepath.Join(append([]string{root}, elem...)...)
}

// moduleVersion matches the first line of /proc/driver/nvidia/version, which is
// "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.95.05  Release Build …"
// or, of the open kernel modules, "… Open Kernel Module for x86_64  580.95.05  …".
var moduleVersion = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?m)^NVRM version:.*?\s(\d{1,6}(?:\.\d{1,6}){1,3})\s`)
})

// Version returns the version of the loaded kernel module, for example
// "580.95.05". The error wraps fs.ErrNotExist if no module is loaded.
func (r Root) Version() (string, error) {
	path := r.path("driver/nvidia/version")
	data, err := read(path, maxText)
	if err != nil {
		return "", fmt.Errorf("read driver version: %w", err)
	}
	m := moduleVersion().FindSubmatch(data)
	if m == nil {
		return "", fmt.Errorf("read driver version: %s has no line that starts with \"NVRM version:\" and contains a version", path)
	}
	return string(m[1]), nil
}

const (
	// maxText is the largest size of a file about one object, in bytes. The driver writes less than
	// 1 KiB.
	maxText = 64 << 10
	// maxMinors is the largest size of mig-minors, in bytes. The driver writes about 3 KiB for each
	// GPU.
	maxMinors = 4 << 20
)

// errTooLarge is returned for a file that the driver cannot have written.
var errTooLarge = errors.New("file is larger than any file that the driver writes")

// read reads a whole file of at most limit bytes.
func read(path string, limit int64) ([]byte, error) {
	f, err := openRegular(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = fmt.Errorf("read %s: %w", path, errTooLarge)
	}
	return data, err
}

// openRegular opens a regular file. All files of procfs are regular. Any other kind of file could
// block the reader.
func openRegular(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("open %s: not a regular file (%s)", path, info.Mode().Type())
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// listNames returns the names in a folder. If the folder cannot be read to its end, it returns the
// names so far. It does not use package os, which takes several times as long, because idle agents
// read such folders again and again.
func listNames(dir string) []string {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	defer unix.Close(fd) //nolint:errcheck // nothing was written
	var out []string
	buf := make([]byte, 2048)
	for {
		n, err := unix.ReadDirent(fd, buf)
		if err != nil || n <= 0 {
			return out
		}
		_, _, out = unix.ParseDirent(buf[:n], -1, out)
	}
}
