package node_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	"gotest.tools/v3/assert"

	"outrigger.dev/sim/internal/elfso"
	"outrigger.dev/sim/internal/node"
	"outrigger.dev/sim/internal/state"
)

// needRoot skips a test that renders device nodes, where that is not permitted.
func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("making device nodes (mknod) needs root")
	}
}

// config describes a node in a new folder, on a machine with a small
// /proc/devices and one PCI device.
func config(t *testing.T, model string, gpus int) node.Config {
	t.Helper()
	dir := t.TempDir()
	pci := filepath.Join(dir, "pci")
	libs := filepath.Join(dir, "lib")
	for _, d := range []string{pci, libs} {
		assert.NilError(t, os.Mkdir(d, 0o755))
	}
	assert.NilError(t, os.Symlink("../../../devices/pci0000:00/0000:00:1f.0", filepath.Join(pci, "0000:00:1f.0")))
	for _, name := range []string{"libnvidia-ml.so.1", "libcuda.so.1"} {
		data, err := elfso.New(name)
		assert.NilError(t, err)
		write(t, filepath.Join(libs, name), string(data))
	}
	program := filepath.Join(dir, "gpu-sim")
	write(t, program, "#!/bin/sh\n")
	spec := state.NewSpec(model, gpus)
	spec.Node = "test"
	return node.Config{
		Root: filepath.Join(dir, "nodes", "node"), Spec: spec, Libraries: libs, Program: program,
		Host: node.Host{ProcDevices: filepath.Join("testdata", "proc-devices"), PCIDevices: pci},
	}
}

func create(t *testing.T, cfg node.Config) *node.Node {
	t.Helper()
	needRoot(t)
	n, err := node.Create(cfg)
	assert.NilError(t, err)
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	})
	return n
}

func write(t *testing.T, path, data string) {
	t.Helper()
	assert.NilError(t, os.WriteFile(path, []byte(data), 0o755))
}

// listing describes every file below root in one line. A file that has the
// inode of the state is marked.
func listing(t *testing.T, root string) string {
	t.Helper()
	shared, err := os.Stat(filepath.Join(root, "state"))
	assert.NilError(t, err)
	var b strings.Builder
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		name := strings.TrimPrefix(strings.TrimPrefix(path, root), "/")
		switch {
		case name == "" || name == "lock":
			return nil
		case info.Mode()&fs.ModeSymlink != 0:
			target, err := os.Readlink(path)
			name += " -> " + target
			if err != nil {
				return err
			}
		case info.Mode()&fs.ModeCharDevice != 0:
			var st unix.Stat_t
			if err := unix.Stat(path, &st); err != nil {
				return err
			}
			name = fmt.Sprintf("%s %d:%d", name, unix.Major(st.Rdev), unix.Minor(st.Rdev))
		case os.SameFile(info, shared):
			name += " (the state)"
		}
		fmt.Fprintf(&b, "%s %s\n", info.Mode(), name)
		return nil
	})
	assert.NilError(t, err)
	return b.String()
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	assert.NilError(t, err)
	return string(data)
}
