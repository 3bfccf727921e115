// Package machinetest makes machines on which tests show simulated nodes.
package machinetest

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
)

// Machine stands for a node of Kubernetes: a mount namespace, with a folder for /dev and a folder for
// /run/nvidia.
type Machine struct {
	t     *testing.T
	calls chan func()
	tid   int
	// Dev is the machine's /dev, and Run its /run/nvidia.
	Dev, Run string
	// private is a folder in which mounts do not propagate, as in the root of a container.
	private    string
	containers int
	// before has the mounts that the machine started with.
	before map[string]bool
}

// New starts a thread with its own mount namespace, in which mounts are shared, as on a
// machine with systemd.
func New(t *testing.T) *Machine {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("making mounts needs root")
	}
	dir := t.TempDir()
	m := &Machine{t: t, calls: make(chan func()), Dev: filepath.Join(dir, "dev"), Run: filepath.Join(dir, "run-nvidia"), private: filepath.Join(dir, "containers")}
	assert.NilError(t, errors.Join(os.Mkdir(m.Dev, 0o755), os.Mkdir(m.private, 0o755)))
	t.Cleanup(func() { close(m.calls) })
	go onThread(func() {
		for call := range m.calls {
			call()
		}
	})
	m.Do(func() {
		m.tid = unix.Gettid()
		assert.Check(t, unix.Unshare(unix.CLONE_NEWNS))
		assert.Check(t, unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""))
		assert.Check(t, unix.Mount("", "/", "", unix.MS_REC|unix.MS_SHARED, ""))
		m.before = map[string]bool{}
		for _, mount := range m.mounts() {
			m.before[mount] = true
		}
		assert.Check(t, unix.Mount("tmpfs", m.Dev, "tmpfs", 0, "mode=755"))
		assert.Check(t, unix.Mount("tmpfs", m.private, "tmpfs", 0, "mode=755"))
		assert.Check(t, unix.Mount("", m.private, "", unix.MS_PRIVATE, ""))
		assert.Check(t, os.WriteFile(filepath.Join(m.Dev, "null"), nil, 0o600))
	})
	return m
}

// onThread runs a function on a thread that ends with it. The first thread of a process does not end, and its
// namespaces are those of /proc/self, so that thread is kept until the function has another one.
func onThread(f func()) {
	runtime.LockOSThread()
	if unix.Gettid() == unix.Getpid() {
		defer runtime.UnlockOSThread()
		done := make(chan struct{})
		go onThread(func() { defer close(done); f() })
		<-done
		return
	}
	f()
}

// Do runs a function on the machine.
func (m *Machine) Do(f func()) {
	m.t.Helper()
	done := make(chan struct{})
	m.calls <- func() { defer close(done); f() }
	<-done
	if m.t.Failed() {
		m.t.FailNow()
	}
}

// Container runs a function in a container of the machine, with the machine's folders that Shown
// names as mounts with bidirectional propagation.
func (m *Machine) Container(f func(on node.Shown)) {
	m.t.Helper()
	m.containers++
	root := filepath.Join(m.private, fmt.Sprint(m.containers))
	on := node.Shown{Proc: filepath.Join(root, "proc"), Sys: filepath.Join(root, "sys"), Run: filepath.Join(root, "run")}
	m.Do(func() { assert.Check(m.t, os.MkdirAll(m.Run, 0o755)) })
	done := make(chan struct{})
	go onThread(func() {
		defer close(done)
		fd, err := unix.Open(fmt.Sprintf("/proc/self/task/%d/ns/mnt", m.tid), unix.O_RDONLY|unix.O_CLOEXEC, 0)
		assert.Check(m.t, err)
		assert.Check(m.t, unix.Unshare(unix.CLONE_FS))
		assert.Check(m.t, unix.Setns(fd, unix.CLONE_NEWNS))
		assert.Check(m.t, unix.Close(fd))
		assert.Check(m.t, unix.Unshare(unix.CLONE_NEWNS))
		for from, to := range map[string]string{"/proc": on.Proc, "/sys": on.Sys, m.Run: on.Run} {
			assert.Check(m.t, os.MkdirAll(to, 0o755))
			assert.Check(m.t, unix.Mount(from, to, "", unix.MS_BIND|unix.MS_REC, ""))
		}
		if !m.t.Failed() {
			f(on)
		}
	})
	<-done
	if m.t.Failed() {
		m.t.FailNow()
	}
}

// mounts returns the root, the mount point and the options of each mount. It runs on the machine.
func (m *Machine) mounts() []string {
	text, err := os.ReadFile("/proc/thread-self/mountinfo")
	assert.Check(m.t, err)
	var all []string
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		all = append(all, strings.Join(fields[3:6], " "))
	}
	return all
}

// Listing describes what a driver or a simulator can change on the machine: mounts, device nodes,
// and files.
func (m *Machine) Listing() string {
	m.t.Helper()
	var b strings.Builder
	m.Do(func() {
		for _, mount := range m.mounts() {
			// Mounts of other programs can end, because they remove the folder.
			if at := strings.Fields(mount)[1]; !m.before[mount] || strings.HasPrefix(at, "/proc") || strings.HasPrefix(at, "/sys") {
				fmt.Fprintln(&b, mount)
			}
		}
		for _, dir := range []string{m.Dev, m.Run, "/proc/driver", "/sys/bus/pci/devices"} {
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
