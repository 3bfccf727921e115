package devnode_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	"gotest.tools/v3/assert"

	"outrigger.dev/pkg/devnode"
)

// host is a folder with dev and proc.
type host struct {
	t               *testing.T
	proc, dev, char string
}

const devices = `Character devices:
  1 mem
195 nvidia
195 nvidia-modeset
195 nvidiactl
508 nvidia-caps
510 nvidia-uvm

Block devices:
511 nvidia-uvm
`

func newHost(t *testing.T) *host {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can make device nodes")
	}
	dir := t.TempDir()
	h := &host{t: t, proc: filepath.Join(dir, "proc"), dev: filepath.Join(dir, "dev"), char: filepath.Join(dir, "dev/char")}
	h.file("devices", devices)
	h.file("driver/nvidia/gpus/0000:07:00.0/information", "Model: \t NVIDIA A100\nDevice Minor: \t 0\n")
	h.file("driver/nvidia/capabilities/mig/config", "DeviceFileMinor: 1\nDeviceFileMode: 256\nDeviceFileModify: 1\n")
	h.file("driver/nvidia/capabilities/mig/monitor", "DeviceFileMinor: 2\nDeviceFileMode: 292\n")
	h.file("driver/nvidia/capabilities/gpu0/mig/gi1/access", "DeviceFileMinor: 12\nDeviceFileMode: 292\n")
	h.file("driver/nvidia/capabilities/gpu0/mig/gi1/ci0/access", "DeviceFileMinor: 13\nDeviceFileMode: 292\n")
	h.file("driver/nvidia-caps/mig-minors", "config 1\nmonitor 2\ngpu0/gi1/access 12\ngpu0/gi1/ci0/access 13\ngpu0/gi2/access 21\n")
	assert.NilError(t, os.MkdirAll(h.dev, 0o755))
	return h
}

func (h *host) file(name, text string) {
	h.t.Helper()
	path := filepath.Join(h.proc, name)
	assert.NilError(h.t, os.MkdirAll(filepath.Dir(path), 0o755))
	assert.NilError(h.t, os.WriteFile(path, []byte(text), 0o600))
}

func (h *host) mknod(name string, major, minor uint32) {
	h.t.Helper()
	path := filepath.Join(h.dev, name)
	assert.NilError(h.t, os.MkdirAll(filepath.Dir(path), 0o755))
	assert.NilError(h.t, unix.Mknod(path, unix.S_IFCHR|0o600, int(unix.Mkdev(major, minor))))
}

// wanted returns all nodes of the driver.
func (h *host) wanted() []devnode.Node {
	h.t.Helper()
	d := devnode.Driver(h.proc)
	control, err := d.Control()
	assert.NilError(h.t, err)
	gpus, err := d.GPUs()
	assert.NilError(h.t, err)
	return append(control, gpus...)
}

// text returns a plan in words, without the folder.
func (h *host) text(p devnode.Plan) string {
	lines := make([]string, 0, len(p))
	for _, s := range p {
		lines = append(lines, strings.ReplaceAll(s.String(), filepath.Dir(h.dev), ""))
	}
	return strings.Join(lines, "\n")
}

func same(t *testing.T, want, got string) {
	t.Helper()
	if d := cmp.Diff(strings.TrimSpace(want), got); d != "" {
		t.Errorf("plan (-want +got):\n%s", d)
	}
}

func TestNodes(t *testing.T) {
	h := newHost(t)
	h.file("driver/nvidia/params", "DeviceFileUID: 7\nDeviceFileGID: 44\nDeviceFileMode: 432\nModifyDeviceFiles: 1\n")
	h.mknod("nvidiactl", 195, 255)
	// The driver was loaded again, with another number.
	h.mknod("nvidia-uvm", 509, 0)
	plan, err := devnode.Nodes(h.dev, h.wanted())
	assert.NilError(t, err)
	same(t, `
make /dev/nvidia-modeset: character device 195:254, mode 0660
make /dev/nvidia-uvm: character device 510:0, mode 0660 (it is 509:0)
make /dev/nvidia-uvm-tools: character device 510:1, mode 0660
make /dev/nvidia0: character device 195:0, mode 0660
make /dev/nvidia-caps/nvidia-cap1: character device 508:1, mode 0400
make /dev/nvidia-caps/nvidia-cap2: character device 508:2, mode 0444
make /dev/nvidia-caps/nvidia-cap12: character device 508:12, mode 0444
make /dev/nvidia-caps/nvidia-cap13: character device 508:13, mode 0444`, h.text(plan))
	assert.NilError(t, plan.Apply())
	again, err := devnode.Nodes(h.dev, h.wanted())
	if err != nil || len(again) > 0 {
		t.Errorf("a second plan is %q, %v, want none", h.text(again), err)
	}
	var st unix.Stat_t
	assert.NilError(t, unix.Lstat(filepath.Join(h.dev, "nvidia-uvm"), &st))
	if unix.Major(st.Rdev) != 510 || st.Mode&0o777 != 0o660 || st.Uid != 7 || st.Gid != 44 {
		t.Errorf("nvidia-uvm is %d with mode %o of %d:%d", unix.Major(st.Rdev), st.Mode, st.Uid, st.Gid)
	}
	names, err := os.ReadDir(h.dev)
	assert.NilError(t, err)
	for _, e := range names {
		if strings.HasPrefix(e.Name(), ".") {
			t.Errorf("%s was left behind", e.Name())
		}
	}
}

// What a person or another program put in the place of a node stays.
func TestNodesLeaveWhatIsNoDevice(t *testing.T) {
	for name, put := range map[string]func(path string) error{
		"a file":         func(p string) error { return os.WriteFile(p, []byte("x"), 0o600) },
		"a folder":       func(p string) error { return os.Mkdir(p, 0o700) },
		"a link":         func(p string) error { return os.Symlink("/dev/null", p) },
		"a block device": func(p string) error { return unix.Mknod(p, unix.S_IFBLK, int(unix.Mkdev(195, 255))) },
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t)
			path := filepath.Join(h.dev, "nvidiactl")
			assert.NilError(t, put(path))
			before, err := os.Lstat(path)
			assert.NilError(t, err)
			plan, err := devnode.Nodes(h.dev, h.wanted())
			if err == nil || !strings.Contains(err.Error(), path+": the file with this path is not a character device: remove it") {
				t.Errorf("error is %v, want one that names %s", err, path)
			}
			assert.NilError(t, plan.Apply())
			if after, err := os.Lstat(path); err != nil || !os.SameFile(before, after) {
				t.Errorf("it is now %v, %v", after, err)
			}
			if _, err := os.Lstat(filepath.Join(h.dev, "nvidia0")); err != nil {
				t.Errorf("the other nodes are not made: %v", err)
			}
		})
	}
}

func TestNodesOfADriverThatIsNotLoaded(t *testing.T) {
	h := newHost(t)
	h.file("devices", "Character devices:\n  1 mem\n\nBlock devices:\n195 nvidia\n")
	if _, err := devnode.Driver(h.proc).Control(); !errors.Is(err, devnode.ErrNotLoaded) {
		t.Errorf("Control() = %v, want %v", err, devnode.ErrNotLoaded)
	}
	if _, err := devnode.Driver(h.proc).GPUs(); !errors.Is(err, devnode.ErrNotLoaded) {
		t.Errorf("GPUs() = %v, want %v", err, devnode.ErrNotLoaded)
	}
	h.file("devices", "Character devices:\n195 nvidia-frontend\n")
	got, err := devnode.Driver(h.proc).Control()
	if err == nil || !strings.Contains(err.Error(), "nvidia-uvm is not loaded") || len(got) != 2 {
		t.Errorf("Control() = %v, %v, want two nodes and the module that is missing", got, err)
	}
}

func TestNodeOfAGPU(t *testing.T) {
	h := newHost(t)
	h.file("driver/nvidia/params", "DeviceFileUID: 1001\n")
	h.file("driver/nvidia/gpus/0000:17:00.0/information", "Device Minor: \t 3\n")
	h.file("driver/nvidia/gpus/0000:18:00.0/information", "Model: \t NVIDIA A100\n")
	d := devnode.Driver(h.proc)
	got, err := d.GPU("0000:17:00.0")
	if want := (devnode.Node{Name: "nvidia3", Major: 195, Minor: 3, Mode: 0o666, UID: 1001}); err != nil || got != want {
		t.Errorf("GPU() = %+v, %v, want %+v", got, err, want)
	}
	for id, want := range map[string]string{"0000:18:00.0": "minor number", "0000:19:00.0": "no such file"} {
		if got, err := d.GPU(id); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("GPU(%s) = %+v, %v, want an error with %q", id, got, err, want)
		}
	}
	h.file("devices", "Character devices:\n  1 mem\n")
	if _, err := d.GPU("0000:17:00.0"); !errors.Is(err, devnode.ErrNotLoaded) {
		t.Errorf("GPU() = %v, want %v", err, devnode.ErrNotLoaded)
	}
}

func TestLinks(t *testing.T) {
	h := newHost(t)
	for name, n := range map[string][2]uint32{
		"nvidiactl": {195, 255}, "nvidia0": {195, 0}, "nvidia-uvm": {510, 0}, "nvidia-caps/nvidia-cap1": {508, 1},
		"nvidia-fs0": {240, 0}, "nvidia-nvswitchctl": {241, 255}, "nvidia-nvlink": {242, 0},
	} {
		h.mknod(name, n[0], n[1])
	}
	assert.NilError(t, os.MkdirAll(h.char, 0o755))
	for link, target := range map[string]string{
		// As udev makes it, and as NVIDIA's toolkit does.
		"195:255": "../nvidiactl", "508:1": filepath.Join(h.dev, "nvidia-caps/nvidia-cap1"),
		// Of the driver that was loaded before.
		"509:0": "../nvidia-uvm",
		// To nothing, and to something that is not ours.
		"195:0": "../nvidia7", "1:3": "../null",
	} {
		assert.NilError(t, os.Symlink(target, filepath.Join(h.char, link)))
	}
	existing, err := devnode.Existing(h.dev)
	assert.NilError(t, err)
	plan, err := devnode.Links(h.dev, h.char, existing)
	assert.NilError(t, err)
	same(t, `
remove /dev/char/509:0 (it is ../nvidia-uvm)
link /dev/char/510:0 -> ../nvidia-uvm
link /dev/char/195:0 -> ../nvidia0 (it is ../nvidia7)`, h.text(plan))
	assert.NilError(t, plan.Apply())
	again, err := devnode.Links(h.dev, h.char, existing)
	if err != nil || len(again) > 0 {
		t.Errorf("a second plan is %q, %v, want none", h.text(again), err)
	}
	assert.NilError(t, plan.Undo())
	left, err := os.ReadDir(h.char)
	assert.NilError(t, err)
	var names []string
	for _, e := range left {
		names = append(names, e.Name())
	}
	if d := cmp.Diff([]string{"195:255", "1:3", "508:1"}, names); d != "" {
		t.Errorf("links after Undo (-want +got):\n%s", d)
	}
}

func TestLinksLeaveWhatIsNoLink(t *testing.T) {
	h := newHost(t)
	h.mknod("nvidiactl", 195, 255)
	assert.NilError(t, os.MkdirAll(h.char, 0o755))
	path := filepath.Join(h.char, "195:255")
	assert.NilError(t, os.WriteFile(path, nil, 0o600))
	existing, err := devnode.Existing(h.dev)
	assert.NilError(t, err)
	plan, err := devnode.Links(h.dev, h.char, existing)
	if err == nil || !strings.Contains(err.Error(), path) || len(plan) > 0 {
		t.Errorf("Links() = %q, %v, want an error that names %s", h.text(plan), err, path)
	}
}

func TestPossible(t *testing.T) {
	h := newHost(t)
	got, err := devnode.Driver(h.proc).Possible()
	assert.NilError(t, err)
	var names []string
	for _, n := range got {
		names = append(names, n.Name)
	}
	want := []string{"nvidia-caps/nvidia-cap1", "nvidia-caps/nvidia-cap2", "nvidia-caps/nvidia-cap12", "nvidia-caps/nvidia-cap13", "nvidia-caps/nvidia-cap21"}
	if d := cmp.Diff(want, names); d != "" {
		t.Errorf("nodes (-want +got):\n%s", d)
	}
}

func TestKeep(t *testing.T) {
	h := newHost(t)
	cfg := devnode.Config{Proc: h.proc, Dev: h.dev, Char: h.char}
	first, err := devnode.Keep(cfg)
	assert.NilError(t, err)
	if len(first) != 2*len(h.wanted()) {
		t.Errorf("Keep() did\n%s\nwant %d nodes and as many links", h.text(first), len(h.wanted()))
	}
	if second, err := devnode.Keep(cfg); err != nil || len(second) > 0 {
		t.Errorf("a second Keep() did %q, %v, want nothing", h.text(second), err)
	}
	h.file("devices", strings.ReplaceAll(devices, "510 nvidia-uvm", "509 nvidia-uvm"))
	changed, err := devnode.Keep(cfg)
	assert.NilError(t, err)
	same(t, `
make /dev/nvidia-uvm: character device 509:0, mode 0666 (it is 510:0)
make /dev/nvidia-uvm-tools: character device 509:1, mode 0666 (it is 510:1)
remove /dev/char/510:0 (it is ../nvidia-uvm)
remove /dev/char/510:1 (it is ../nvidia-uvm-tools)
link /dev/char/509:0 -> ../nvidia-uvm
link /dev/char/509:1 -> ../nvidia-uvm-tools`, h.text(changed))
	h.file("devices", "Character devices:\n1 mem\n")
	if _, err := devnode.Keep(cfg); !errors.Is(err, devnode.ErrNotLoaded) || strings.Count(err.Error(), "not loaded") != 1 {
		t.Errorf("Keep() without a driver = %v, want %v once", err, devnode.ErrNotLoaded)
	}
}

// As with NVIDIA's nvidia-modprobe, nobody makes or changes the nodes of such a driver.
func TestNodesThatNobodyMayMake(t *testing.T) {
	h := newHost(t)
	h.file("driver/nvidia/params", "ModifyDeviceFiles: 0\n")
	h.file("driver/nvidia/capabilities/gpu0/mig/gi1/access", "DeviceFileMinor: 12\nDeviceFileMode: 292\nDeviceFileModify: 0\n")
	h.mknod("nvidiactl", 195, 255)
	// It has a number that the driver does not have any more.
	h.mknod("nvidia-uvm", 509, 0)
	cfg := devnode.Config{Proc: h.proc, Dev: h.dev, Char: h.char}
	done, err := devnode.Keep(cfg)
	assert.NilError(t, err)
	same(t, `
make /dev/nvidia-caps/nvidia-cap1: character device 508:1, mode 0400
make /dev/nvidia-caps/nvidia-cap2: character device 508:2, mode 0444
make /dev/nvidia-caps/nvidia-cap13: character device 508:13, mode 0444
link /dev/char/508:1 -> ../nvidia-caps/nvidia-cap1
link /dev/char/508:13 -> ../nvidia-caps/nvidia-cap13
link /dev/char/508:2 -> ../nvidia-caps/nvidia-cap2
link /dev/char/509:0 -> ../nvidia-uvm
link /dev/char/195:255 -> ../nvidiactl`, h.text(done))
	want := "these are missing in " + h.dev + ": nvidia-modeset, nvidia-uvm, nvidia-uvm-tools, nvidia0, nvidia-caps/nvidia-cap12;"
	assert.ErrorContains(t, cfg.Left(), want)
	h.file("driver/nvidia/params", "ModifyDeviceFiles: 1\n")
	h.file("driver/nvidia/capabilities/gpu0/mig/gi1/access", "DeviceFileMinor: 12\nDeviceFileMode: 292\nDeviceFileModify: 1\n")
	if err := cfg.Left(); err != nil {
		t.Errorf("Left() = %v, want none of nodes that can be made", err)
	}
}

// Processes in containers have the same ID, and two agents can make the same node at once.
func TestAppliesAtOnce(t *testing.T) {
	h := newHost(t)
	nodes, err := devnode.Nodes(h.dev, h.wanted())
	assert.NilError(t, err)
	links, err := devnode.Links(h.dev, h.char, h.wanted())
	assert.NilError(t, err)
	plan := append(nodes, links...)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 50 {
				if err := plan.Apply(); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	for _, dir := range []string{h.dev, h.char, filepath.Join(h.dev, "nvidia-caps")} {
		if left, err := filepath.Glob(filepath.Join(dir, ".*")); err != nil || left != nil {
			t.Errorf("%q were left behind, %v", left, err)
		}
	}
}

// A container can see the driver root at another path than the host.
func TestLinksLeadToPathsOfTheHost(t *testing.T) {
	h := newHost(t)
	cfg := devnode.Config{Proc: h.proc, Dev: h.dev, HostDev: "/opt/driver/dev", Char: h.char}
	_, err := devnode.Keep(cfg)
	assert.NilError(t, err)
	target, err := os.Readlink(filepath.Join(h.char, "195:255"))
	assert.NilError(t, err)
	if got := filepath.Join(h.char, target); got != "/opt/driver/dev/nvidiactl" {
		t.Errorf("the link leads to %s", got)
	}
	if again, err := devnode.Keep(cfg); err != nil || len(again) > 0 {
		t.Errorf("a second Keep() did %q, %v, want nothing", h.text(again), err)
	}
}
