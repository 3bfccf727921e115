package node_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	"gotest.tools/v3/assert"

	"outrigger.dev/sim/internal/mounts"
	"outrigger.dev/sim/internal/node"
	"outrigger.dev/sim/internal/state"
)

// creates runs a function in the mount namespace of a container that a runtime creates. At rootfs, the
// container has its own procfs and sysfs.
func (m plain) creates(f func(rootfs string)) {
	m.t.Helper()
	m.Container(func(node.Shown) {
		rootfs := m.t.TempDir()
		assert.Check(m.t, unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""))
		for _, kind := range []string{"proc", "sysfs"} {
			dir := filepath.Join(rootfs, strings.TrimSuffix(kind, "fs"))
			assert.Check(m.t, errors.Join(os.Mkdir(dir, 0o755), unix.Mount(kind, dir, kind, 0, "")))
		}
		f(rootfs)
		for _, name := range []string{"proc", "sys"} {
			assert.Check(m.t, unix.Unmount(filepath.Join(rootfs, name), unix.MNT_DETACH))
		}
	})
}

func TestAContainerSeesTheNode(t *testing.T) {
	m := newPlain(t)
	cfg := m.config("h100-80", 2)
	m.starts(cfg, func() (*node.Node, error) { return node.Create(cfg) })
	before := m.Listing()
	m.creates(func(rootfs string) {
		sees := func(gpus int) {
			t.Helper()
			for pattern, want := range map[string]int{"proc/driver/nvidia/gpus/*": gpus, "sys/bus/pci/devices/*/vendor": gpus, "proc/driver/nvidia/version": 1} {
				found, err := filepath.Glob(filepath.Join(rootfs, pattern))
				assert.Check(t, err)
				assert.Check(t, len(found) == want, "%s are %q, want %d", pattern, found, want)
			}
			devices, err := os.ReadFile(filepath.Join(rootfs, "proc/devices"))
			assert.Check(t, err)
			assert.Check(t, strings.Contains(string(devices), "nvidia-uvm"), "%s", devices)
		}
		assert.Check(t, mounts.Inside(cfg.Root, rootfs))
		sees(2)
		for _, name := range []string{"proc/driver/x", "proc/devices", "sys/bus/pci/devices/x"} {
			err := os.WriteFile(filepath.Join(rootfs, name), nil, 0o600)
			assert.Check(t, errors.Is(err, unix.EROFS), "write %s: %v", name, err)
		}
		// What the container mounts stays in it.
		assert.Check(t, unix.Mount("tmpfs", filepath.Join(rootfs, "proc/driver/nvidia/gpus"), "tmpfs", 0, ""))
		assert.Equal(t, before, m.Listing(), "the machine changed")
		assert.Check(t, unix.Unmount(filepath.Join(rootfs, "proc/driver/nvidia/gpus"), 0))
		cfg.Spec = state.NewSpec("a100-40", 1)
		m.starts(cfg, func() (*node.Node, error) { return node.Exchange(cfg) })
		sees(1)
	})
}

// The files of a container choose no mount point.
func TestAContainerWithOtherFolders(t *testing.T) {
	m := newPlain(t)
	cfg := m.config("h100-80", 1)
	m.starts(cfg, func() (*node.Node, error) { return node.Create(cfg) })
	victim := t.TempDir()
	assert.NilError(t, errors.Join(os.MkdirAll(filepath.Join(victim, "bus/pci/devices"), 0o755), os.MkdirAll(filepath.Join(victim, "driver"), 0o755), os.WriteFile(filepath.Join(victim, "devices"), nil, 0o600)))
	for name, other := range map[string]func(dir string) error{
		"a folder of the image": func(dir string) error { return os.Mkdir(dir, 0o755) },
		"a volume": func(dir string) error {
			return errors.Join(os.Mkdir(dir, 0o755), unix.Mount(victim, dir, "", unix.MS_BIND, ""))
		},
		"the machine's folder": func(dir string) error {
			return errors.Join(os.Mkdir(dir, 0o755), unix.Mount("/"+filepath.Base(dir), dir, "", unix.MS_BIND|unix.MS_REC, ""))
		},
		"a link":             func(dir string) error { return os.Symlink(victim, dir) },
		"a link of a kernel": func(dir string) error { return os.Symlink("/"+filepath.Base(dir), dir) },
		"nothing":            func(string) error { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			m.Container(func(node.Shown) {
				assert.Check(t, unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""))
				rootfs := t.TempDir()
				proc, sys := filepath.Join(rootfs, "proc"), filepath.Join(rootfs, "sys")
				assert.Check(t, errors.Join(other(proc), other(sys)))
				before := mountinfo(t)
				assert.Check(t, mounts.Inside(cfg.Root, rootfs))
				assert.Equal(t, before, mountinfo(t))
				_, _ = unix.Unmount(proc, unix.MNT_DETACH), unix.Unmount(sys, unix.MNT_DETACH)
			})
		})
	}
}

// mountinfo returns the mounts of the calling thread's namespace.
func mountinfo(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("/proc/thread-self/mountinfo")
	assert.Check(t, err)
	return string(text)
}
