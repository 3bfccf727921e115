package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// probe is the container's program. For each line of its input, it prints one line with its access
// to the device nodes of the container, and to device nodes of the GPUs that it makes itself.
func probe(in io.Reader, w io.Writer) {
	made := made(w)
	for lines := bufio.NewScanner(in); lines.Scan(); {
		for _, path := range append([]string{"/dev/nvidia0", "/dev/nvidia1", "/dev/nvidiactl", "/dev/nvidia-uvm"}, made...) {
			fmt.Fprint(w, path, " ", open(path), ", ")
		}
		fmt.Fprintln(w, "/dev/null", open("/dev/null"))
	}
}

// made creates device nodes of the two GPUs, and returns their paths.
func made(w io.Writer) []string {
	const major = 195
	var paths []string
	for minor := range uint32(2) {
		path := filepath.Join("/made", fmt.Sprint("nvidia", minor))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			fmt.Fprintln(w, err)
		}
		if err := unix.Mknod(path, unix.S_IFCHR|0o666, int(unix.Mkdev(major, minor))); err != nil {
			fmt.Fprintln(w, err)
		}
		paths = append(paths, path)
	}
	return paths
}

// open returns the kernel's response to opening a device node. No driver serves the nodes of a
// simulated node, so ENXIO means that the access is allowed.
func open(path string) string {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	switch {
	case err == nil:
		f.Close()
		return "opened"
	case errors.Is(err, unix.ENXIO):
		return "allowed"
	case errors.Is(err, unix.EPERM):
		return "EPERM"
	case errors.Is(err, fs.ErrNotExist):
		return "missing"
	}
	return err.Error()
}
