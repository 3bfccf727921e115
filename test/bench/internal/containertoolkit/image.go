package containertoolkit

import (
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"

	"outrigger.dev/pkg/driverroot"
	"outrigger.dev/pkg/ldso/ldsotest"
)

// imageLibraries is the number of libraries in the image: about as many as in an image of a
// framework for machine learning.
const imageLibraries = 500

// newImage makes a root file system like Debian's in a folder: libraries, the loader's cache, and a
// program.
func newImage(ctx context.Context, dir, program string) error {
	machine := elf.EM_X86_64
	if runtime.GOARCH == "arm64" {
		machine = elf.EM_AARCH64
	}
	libraries := driverroot.LoaderDirs()[0]
	files := map[string][]byte{
		"etc/debian_version":          []byte("12.0\n"),
		"lib64/ld-linux-x86-64.so.2":  nil,
		"lib/ld-linux-aarch64.so.1":   nil,
		"dev/null":                    nil,
		"proc/driver/nvidia/params":   nil,
		"sys/class/.keep":             nil,
		"etc/ld.so.conf.d/image.conf": []byte("/usr/local/lib\n"),
	}
	for i := range imageLibraries {
		files[fmt.Sprintf("%s/libimage%d.so.1.%d", libraries, i, i)] = ldsotest.Library(machine, fmt.Sprintf("libimage%d.so.1", i))
	}
	for name, data := range files {
		if err := write(filepath.Join(dir, name), data, 0o644); err != nil {
			return err
		}
	}
	data, err := os.ReadFile(program)
	if err != nil {
		return err
	}
	if err := write(filepath.Join(dir, "bin/wait"), data, 0o755); err != nil {
		return err
	}
	out, err := exec.CommandContext(ctx, "/sbin/ldconfig", "-r", dir).CombinedOutput()
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("make the loader's cache of the image: %w: %s", err, out)
	}
	return nil
}

// clone copies the folder from to the folder to. The files of the copy are hard links.
func clone(from, to string) error {
	return filepath.WalkDir(from, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		at := filepath.Join(to, rel)
		if e.IsDir() {
			return os.MkdirAll(at, 0o755)
		}
		return os.Link(path, at)
	})
}

func write(path string, data []byte, mode fs.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, data, mode)
}
