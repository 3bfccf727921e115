package node_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	"gotest.tools/v3/assert"

	"outrigger.dev/sim/internal/node"
	"outrigger.dev/sim/internal/state"
)

// machine stands for a node of Kubernetes: a mount namespace, with a folder for /dev and a folder for
// /run/nvidia.
type machine struct {
	t        *testing.T
	calls    chan func()
	tid      int
	dev, run string
	// private is a folder in which mounts do not propagate, as in the root of a container.
	private    string
	containers int
}

// newMachine starts a thread with its own mount namespace, in which mounts are shared, as on a
// machine with systemd.
func newMachine(t *testing.T) *machine {
	t.Helper()
	needRoot(t)
	dir := t.TempDir()
	m := &machine{t: t, calls: make(chan func()), dev: filepath.Join(dir, "dev"), run: filepath.Join(dir, "run-nvidia"), private: filepath.Join(dir, "containers")}
	assert.NilError(t, errors.Join(os.Mkdir(m.dev, 0o755), os.Mkdir(m.private, 0o755)))
	t.Cleanup(func() { close(m.calls) })
	go func() {
		runtime.LockOSThread() // the thread ends with the goroutine
		for call := range m.calls {
			call()
		}
	}()
	m.do(func() {
		m.tid = unix.Gettid()
		assert.Check(t, unix.Unshare(unix.CLONE_NEWNS))
		assert.Check(t, unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""))
		assert.Check(t, unix.Mount("", "/", "", unix.MS_REC|unix.MS_SHARED, ""))
		assert.Check(t, unix.Mount("tmpfs", m.dev, "tmpfs", 0, "mode=755"))
		assert.Check(t, unix.Mount("tmpfs", m.private, "tmpfs", 0, "mode=755"))
		assert.Check(t, unix.Mount("", m.private, "", unix.MS_PRIVATE, ""))
		write(t, filepath.Join(m.dev, "null"), "")
	})
	return m
}

// do runs a function on the machine.
func (m *machine) do(f func()) {
	m.t.Helper()
	done := make(chan struct{})
	m.calls <- func() { defer close(done); f() }
	<-done
	if m.t.Failed() {
		m.t.FailNow()
	}
}

// container runs a function in a container of the machine, with the machine's folders that Shown
// names as mounts with bidirectional propagation.
func (m *machine) container(f func(on node.Shown)) {
	m.t.Helper()
	m.containers++
	root := filepath.Join(m.private, fmt.Sprint(m.containers))
	on := node.Shown{Proc: filepath.Join(root, "proc"), Sys: filepath.Join(root, "sys"), Run: filepath.Join(root, "run")}
	m.do(func() { assert.Check(m.t, os.MkdirAll(m.run, 0o755)) })
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		fd, err := unix.Open(fmt.Sprintf("/proc/self/task/%d/ns/mnt", m.tid), unix.O_RDONLY|unix.O_CLOEXEC, 0)
		assert.Check(m.t, err)
		assert.Check(m.t, unix.Unshare(unix.CLONE_FS))
		assert.Check(m.t, unix.Setns(fd, unix.CLONE_NEWNS))
		assert.Check(m.t, unix.Close(fd))
		assert.Check(m.t, unix.Unshare(unix.CLONE_NEWNS))
			for from, to := range map[string]string{"/proc": on.Proc, "/sys": on.Sys, m.run: on.Run} {
			assert.Check(m.t, os.MkdirAll(to, 0o755))
			assert.Check(m.t, unix.Mount(from, to, "", unix.MS_BIND|unix.MS_REC, ""))
		}
		if !m.t.Failed() {
			f(on)
		}
	}()
	<-done
	if m.t.Failed() {
		m.t.FailNow()
	}
}

// listing describes what a driver or a simulator can change on the machine: mounts, device nodes,
// and files.
func (m *machine) listing() string {
	m.t.Helper()
	var b strings.Builder
	m.do(func() {
		mounts, err := os.ReadFile("/proc/thread-self/mountinfo")
		assert.Check(m.t, err)
		for line := range strings.Lines(string(mounts)) {
			fields := strings.Fields(line)
			fmt.Fprintln(&b, fields[3], fields[4], fields[5])
		}
		for _, dir := range []string{m.dev, m.run, "/proc/driver", "/sys/bus/pci/devices"} {
			names, err := filepath.Glob(dir + "/*")
			assert.Check(m.t, err)
			fmt.Fprintln(&b, dir, names)
		}
		devices, err := os.ReadFile("/proc/devices")
		assert.Check(m.t, err)
		b.Write(devices)
	})
	return b.String()
}

// plain describes a node on the machine.
func (m *machine) plain(model string, gpus int) node.Config {
	cfg := config(m.t, model, gpus)
	devices, err := filepath.Abs(cfg.Host.ProcDevices) // a container has another working folder
	assert.NilError(m.t, err)
	cfg.Host = node.Host{ProcDevices: devices, PCIDevices: cfg.Host.PCIDevices, Dev: m.dev}
	return cfg
}

// shows checks what a program on the machine sees.
func (m *machine) shows(gpus int, product string) {
	m.t.Helper()
	m.do(func() {
		nodes, err := filepath.Glob(m.dev + "/nvidia[0-9]*")
		assert.Check(m.t, err)
		assert.Check(m.t, len(nodes) == gpus, "%d device nodes, want %d", len(nodes), gpus)
		infos, err := filepath.Glob("/proc/driver/nvidia/gpus/*/information")
		assert.Check(m.t, err)
		if assert.Check(m.t, len(infos) == gpus, "%d GPUs in procfs, want %d", len(infos), gpus) && gpus > 0 {
			info, err := os.ReadFile(infos[0])
			assert.Check(m.t, err)
			assert.Check(m.t, strings.Contains(string(info), product), "%s, want a %s", info, product)
			_, err = os.Stat(filepath.Join(m.run, "driver/usr/bin/nvidia-smi"))
			assert.Check(m.t, err)
		}
	})
}

// starts runs a process of the agent, which opens the node with open, and shows it.
func (m *machine) starts(cfg node.Config, open func() (*node.Node, error)) {
	m.t.Helper()
	m.container(func(on node.Shown) {
		if !assert.Check(m.t, node.Taken(cfg.Root, on, m.dev)) {
			return
		}
		if n, err := open(); assert.Check(m.t, err) {
			assert.Check(m.t, errors.Join(n.Show(on), n.SetDriver(true), n.Close()))
		}
	})
}

func TestAPlainMachineShowsTheNode(t *testing.T) {
	m := newMachine(t)
	cfg := m.plain("h100-80", 8)
	m.container(func(node.Shown) {})
	before := m.listing()
	m.starts(cfg, func() (*node.Node, error) { return node.Create(cfg) })
	m.shows(8, "H100")
	assert.Assert(t, strings.Contains(m.listing(), m.run+"/driver rw,nosuid,nodev,relatime"), "the driver root is not as wanted:\n%s", m.listing())
	again := m.listing()
	// Another process of the agent takes the node over, and changes it.
	m.starts(cfg, func() (*node.Node, error) { return node.Open(cfg.Root, cfg.Host) })
	assert.Equal(t, again, m.listing(), "a second Show changed something")
	cfg.Spec = state.NewSpec("a100-40", 2)
	m.starts(cfg, func() (*node.Node, error) { return node.Exchange(cfg) })
	m.shows(2, "A100")
	m.container(func(on node.Shown) {
		assert.Check(t, errors.Join(node.Clear(cfg.Root), node.Hide(on), node.Delete(cfg.Root)))
	})
	assert.Equal(t, before, m.listing(), "the machine is not as before")
}

// A container that started while the node was shown has copies of its mounts.
func TestAContainerSeesExchangedGPUs(t *testing.T) {
	m := newMachine(t)
	cfg := m.plain("h100-80", 2)
	m.starts(cfg, func() (*node.Node, error) { return node.Create(cfg) })
	old := t.TempDir()
	m.do(func() {
		assert.Check(t, unix.Mount("/proc/driver", old, "", unix.MS_BIND, ""))
		assert.Check(t, unix.Mount("", old, "", unix.MS_PRIVATE, ""))
	})
	cfg.Spec = state.NewSpec("a100-40", 1)
	m.starts(cfg, func() (*node.Node, error) { return node.Exchange(cfg) })
	m.do(func() {
		gpus, err := filepath.Glob(filepath.Join(old, "nvidia/gpus/*"))
		assert.Check(t, err)
		assert.Check(t, len(gpus) == 1, "the old container sees %v", gpus)
	})
}

func TestTaken(t *testing.T) {
	m := newMachine(t)
	cfg := m.plain("h100-80", 1)
	taken := func(want string, put func(on node.Shown) (undo func() error)) {
		t.Helper()
		m.container(func(on node.Shown) {
			undo := put(on)
			err := node.Taken(cfg.Root, on, m.dev)
			assert.Check(t, err != nil && strings.Contains(err.Error(), want), "%v, want %s", err, want)
			assert.Check(t, undo())
			assert.Check(t, node.Taken(cfg.Root, on, m.dev))
		})
	}
	taken("/dev/nvidiactl exists: a driver or another simulator made it; remove that first", func(node.Shown) func() error {
		path := filepath.Join(m.dev, "nvidiactl")
		assert.Check(t, unix.Mknod(path, unix.S_IFCHR|0o600, int(unix.Mkdev(195, 255))))
		return func() error { return os.Remove(path) }
	})
	taken("/driver is a mount of another program", func(on node.Shown) func() error {
		path := filepath.Join(on.Proc, "driver")
		assert.Check(t, unix.Mount("tmpfs", path, "tmpfs", 0, ""))
		return func() error { return unix.Unmount(path, unix.MNT_DETACH) }
	})
}
