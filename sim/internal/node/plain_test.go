package node_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	"gotest.tools/v3/assert"

	"outrigger.dev/sim/internal/machinetest"
	"outrigger.dev/sim/internal/node"
	"outrigger.dev/sim/internal/state"
)

// plain is a machine that shows nodes.
type plain struct {
	*machinetest.Machine
	t *testing.T
}

func newPlain(t *testing.T) plain {
	t.Helper()
	return plain{machinetest.New(t), t}
}

// config describes a node on the machine.
func (m plain) config(model string, gpus int) node.Config {
	cfg := config(m.t, model, gpus)
	devices, err := filepath.Abs(cfg.Host.ProcDevices) // a container has another working folder
	assert.NilError(m.t, err)
	cfg.Host = node.Host{ProcDevices: devices, PCIDevices: cfg.Host.PCIDevices, Dev: m.Dev}
	return cfg
}

// shows checks what a program on the machine sees.
func (m plain) shows(gpus int, product string) {
	m.t.Helper()
	m.Do(func() {
		nodes, err := filepath.Glob(m.Dev + "/nvidia[0-9]*")
		assert.Check(m.t, err)
		assert.Check(m.t, len(nodes) == gpus, "%d device nodes, want %d", len(nodes), gpus)
		infos, err := filepath.Glob("/proc/driver/nvidia/gpus/*/information")
		assert.Check(m.t, err)
		if assert.Check(m.t, len(infos) == gpus, "%d GPUs in procfs, want %d", len(infos), gpus) && gpus > 0 {
			info, err := os.ReadFile(infos[0])
			assert.Check(m.t, err)
			assert.Check(m.t, strings.Contains(string(info), product), "%s, want a %s", info, product)
			_, err = os.Stat(filepath.Join(m.Run, "driver/usr/bin/nvidia-smi"))
			assert.Check(m.t, err)
		}
	})
}

// starts runs a process of the agent, which opens the node with open, and shows it.
func (m plain) starts(cfg node.Config, open func() (*node.Node, error)) {
	m.t.Helper()
	m.Container(func(on node.Shown) {
		if !assert.Check(m.t, node.Taken(cfg.Root, on, m.Dev)) {
			return
		}
		if n, err := open(); assert.Check(m.t, err) {
			assert.Check(m.t, errors.Join(n.Show(on), n.SetDriver(true), n.Close()))
		}
	})
}

func TestAPlainMachineShowsTheNode(t *testing.T) {
	m := newPlain(t)
	cfg := m.config("h100-80", 8)
	cfg.Spec.IMEXChannels = 1
	m.Container(func(node.Shown) {})
	before := m.Listing()
	m.starts(cfg, func() (*node.Node, error) { return node.Create(cfg) })
	m.shows(8, "H100")
	channel := filepath.Join(m.Dev, "nvidia-caps-imex-channels/channel0")
	m.Do(func() { assert.Check(t, isDevice(channel)) })
	assert.Assert(t, strings.Contains(m.Listing(), m.Run+"/driver rw,nosuid,nodev,relatime"), "the driver root is not as wanted:\n%s", m.Listing())
	again := m.Listing()
	// Another process of the agent takes the node over, and changes it.
	m.starts(cfg, func() (*node.Node, error) { return node.Open(cfg.Root, cfg.Host) })
	assert.Equal(t, again, m.Listing(), "a second Show changed something")
	cfg.Spec = state.NewSpec("a100-40", 2)
	m.starts(cfg, func() (*node.Node, error) { return node.Exchange(cfg) })
	m.shows(2, "A100")
	m.Do(func() { assert.Check(t, !isDevice(channel), "the channel of the previous GPUs is left") })
	m.Container(func(on node.Shown) {
		assert.Check(t, errors.Join(node.Clear(cfg.Root), node.Hide(on), node.Delete(cfg.Root)))
	})
	assert.Equal(t, before, m.Listing(), "the machine is not as before")
}

func isDevice(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// A container that started while the node was shown has copies of its mounts.
func TestAContainerSeesExchangedGPUs(t *testing.T) {
	m := newPlain(t)
	cfg := m.config("h100-80", 2)
	m.starts(cfg, func() (*node.Node, error) { return node.Create(cfg) })
	old := t.TempDir()
	m.Do(func() {
		assert.Check(t, unix.Mount("/proc/driver", old, "", unix.MS_BIND, ""))
		assert.Check(t, unix.Mount("", old, "", unix.MS_PRIVATE, ""))
	})
	cfg.Spec = state.NewSpec("a100-40", 1)
	m.starts(cfg, func() (*node.Node, error) { return node.Exchange(cfg) })
	m.Do(func() {
		gpus, err := filepath.Glob(filepath.Join(old, "nvidia/gpus/*"))
		assert.Check(t, err)
		assert.Check(t, len(gpus) == 1, "the old container sees %v", gpus)
	})
}

// The namespace of a thread counts, not the namespace of its process, which can be the machine's.
func TestMountInTheNamespaceOfAThread(t *testing.T) {
	m := newPlain(t)
	n := create(t, config(t, "h100-80", 1))
	m.Container(func(node.Shown) {
		assert.Check(t, unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""))
		assert.Check(t, n.Mount(t.Context(), t.TempDir()))
		_, err := os.Stat("/dev/nvidia0")
		assert.Check(t, err)
	})
	_, err := os.Stat("/dev/nvidia0")
	assert.Check(t, errors.Is(err, os.ErrNotExist), "%v", err)
}

func TestTaken(t *testing.T) {
	m := newPlain(t)
	cfg := m.config("h100-80", 1)
	taken := func(want string, put func(on node.Shown) (undo func() error)) {
		t.Helper()
		m.Container(func(on node.Shown) {
			undo := put(on)
			err := node.Taken(cfg.Root, on, m.Dev)
			assert.Check(t, err != nil && strings.Contains(err.Error(), want), "%v, want %s", err, want)
			assert.Check(t, undo())
			assert.Check(t, node.Taken(cfg.Root, on, m.Dev))
		})
	}
	taken("/dev/nvidiactl exists: a driver or another simulator made it; remove that first", func(node.Shown) func() error {
		path := filepath.Join(m.Dev, "nvidiactl")
		assert.Check(t, unix.Mknod(path, unix.S_IFCHR|0o600, int(unix.Mkdev(195, 255))))
		return func() error { return os.Remove(path) }
	})
	taken("/driver is a mount of another program", func(on node.Shown) func() error {
		path := filepath.Join(on.Proc, "driver")
		assert.Check(t, unix.Mount("tmpfs", path, "tmpfs", 0, ""))
		return func() error { return unix.Unmount(path, unix.MNT_DETACH) }
	})
}
