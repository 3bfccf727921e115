package driverroot_test

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	"gotest.tools/v3/assert"

	"outrigger.dev/pkg/driverroot"
)

const host = "/run/nvidia/driver"

func nodeAt(host, name string) driverroot.DeviceNode {
	return driverroot.DeviceNode{HostPath: filepath.Join(host, "dev", name), Path: "/dev/" + name, Mode: 0o666}
}

// extraNodes renders all optional hardware with its folder "dev" at dir.
func (r *rendered) extraNodes(dir string) {
	r.t.Helper()
	for i, name := range []string{
		"nvidia-caps-imex-channels/channel0", "nvidia-caps-imex-channels/channel12",
		"nvidia-fs0", "nvidia-fs15", "infiniband/uverbs0", "infiniband/uverbs1", "infiniband/rdma_cm", "gdrdrv",
		"nvidia-nvswitchctl", "nvidia-nvswitch0", "nvidia-nvswitch11",
	} {
		r.node(filepath.Join(dir, name), 0o666, 234, uint32(i))
	}
}

func (r *rendered) folder(rel string) {
	r.t.Helper()
	assert.NilError(r.t, os.MkdirAll(filepath.Join(r.dir, rel), 0o755))
}

func TestExtras(t *testing.T) {
	whole := func(at string, files ...driverroot.File) driverroot.Extras {
		return driverroot.Extras{
			IMEX: map[int]driverroot.DeviceNode{
				0: nodeAt(at, "nvidia-caps-imex-channels/channel0"), 12: nodeAt(at, "nvidia-caps-imex-channels/channel12"),
			},
			GDS: driverroot.Part{Nodes: []driverroot.DeviceNode{nodeAt(at, "nvidia-fs0"), nodeAt(at, "nvidia-fs15")}, Files: files},
			MOFED: driverroot.Part{Nodes: []driverroot.DeviceNode{
				nodeAt(at, "infiniband/rdma_cm"), nodeAt(at, "infiniband/uverbs0"), nodeAt(at, "infiniband/uverbs1"),
			}},
			GDRCopy: driverroot.Part{Nodes: []driverroot.DeviceNode{nodeAt(at, "gdrdrv")}},
			NVSwitch: driverroot.Part{Nodes: []driverroot.DeviceNode{
				nodeAt(at, "nvidia-nvswitch0"), nodeAt(at, "nvidia-nvswitch11"), nodeAt(at, "nvidia-nvswitchctl"),
			}},
		}
	}
	none := driverroot.Extras{IMEX: map[int]driverroot.DeviceNode{}}
	for name, c := range map[string]struct {
		render func(r *rendered)
		want   driverroot.Extras
	}{
		"none": {func(*rendered) {}, none},
		"in the driver root, with files": {
			func(r *rendered) {
				r.extraNodes("dev")
				r.file("usr/local/gds/cufile.json", 0o644, []byte("{}"))
				r.link("etc/cufile.json", "/usr/local/gds/cufile.json")
				r.folder("run/udev")
			},
			whole(
				host,
				driverroot.File{HostPath: host + "/usr/local/gds/cufile.json", Path: "/etc/cufile.json"},
				driverroot.File{HostPath: host + "/run/udev", Path: "/run/udev"},
			),
		},
		"on the host, while the driver root has nodes of its own": {
			func(r *rendered) { r.extraNodes("host/dev") },
			func() driverroot.Extras {
				x := whole("/")
				// They belong to the driver of the GPUs, as the GPUs' nodes do.
				x.IMEX, x.NVSwitch = none.IMEX, none.NVSwitch
				return x
			}(),
		},
		"the driver root's before the host's": {
			func(r *rendered) { r.extraNodes("host/dev"); r.extraNodes("dev") }, whole(host),
		},
		"files without nodes": {
			func(r *rendered) { r.file("etc/cufile.json", 0o644, nil); r.folder("run/udev") }, none,
		},
		"a connection manager without adapters": {
			func(r *rendered) { r.node("dev/infiniband/rdma_cm", 0o666, 10, 1) }, none,
		},
		"names that are none of theirs": {
			func(r *rendered) {
				for i, n := range []string{
					"nvidia-caps-imex-channels/channel00", "nvidia-caps-imex-channels/channel", "nvidia-caps-imex-channels/channel0x",
					"nvidia-fs 0", "infiniband/uverbs", "infiniband/umad0", "gdrdrv0",
					"nvidia-nvswitch", "nvidia-nvlink",
				} {
					r.node("dev/"+n, 0o666, 10, uint32(i))
				}
			}, none,
		},
		"files in the place of nodes": {
			func(r *rendered) {
				for _, n := range []string{"nvidia-caps-imex-channels/channel0", "nvidia-fs0", "infiniband/uverbs0", "gdrdrv"} {
					r.file("dev/"+n, 0o666, nil)
				}
			}, none,
		},
		"links in the place of nodes": {
			func(r *rendered) {
				r.node("dev/other", 0o666, 1, 1)
				for _, n := range []string{"nvidia-caps-imex-channels/channel0", "nvidia-fs0", "infiniband/uverbs0", "gdrdrv"} {
					r.link("dev/"+n, filepath.Join(r.dir, "dev/other"))
				}
			}, none,
		},
		"links in the place of folders": {
			func(r *rendered) {
				r.node("elsewhere/channel0", 0o666, 1, 1)
				r.node("elsewhere/uverbs0", 0o666, 1, 1)
				r.link("dev/nvidia-caps-imex-channels", filepath.Join(r.dir, "elsewhere"))
				r.link("dev/infiniband", "../elsewhere")
			}, none,
		},
		"a link in the place of udev's folder": {
			func(r *rendered) { r.extraNodes("dev"); r.folder("etc"); r.link("run/udev", "/etc") }, whole(host),
		},
		"a folder of another user in its place": {
			func(r *rendered) {
				r.extraNodes("dev")
				r.folder("run/udev")
				if err := os.Chown(filepath.Join(r.dir, "run/udev"), 65534, 65534); err != nil {
					r.t.Skipf("only root can give a folder to another user: %v", err)
				}
			}, whole(host),
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRendered(t)
			r.driver()
			c.render(r)
			if d := cmp.Diff(c.want, r.find().Extras, unmarked()); d != "" {
				t.Errorf("extras of Find (-want +got):\n%s", d)
			}
			if d := cmp.Diff(c.want, r.root().FindExtras(), unmarked()); d != "" {
				t.Errorf("FindExtras() (-want +got):\n%s", d)
			}
		})
	}
}

func TestCaps(t *testing.T) {
	for name, c := range map[string]struct {
		render func(r *rendered)
		want   map[int]driverroot.DeviceNode
	}{
		"by their minor numbers": {
			func(r *rendered) {
				for _, n := range []string{"nvidia-cap1", "nvidia-cap919", "nvidia-cap007", "nvidia-cap"} {
					r.node("dev/nvidia-caps/"+n, 0o666, 508, 1)
				}
				r.file("dev/nvidia-caps/nvidia-cap3", 0o666, nil)
			},
			map[int]driverroot.DeviceNode{1: nodeAt(host, "nvidia-caps/nvidia-cap1"), 919: nodeAt(host, "nvidia-caps/nvidia-cap919")},
		},
		"not through a link": {
			func(r *rendered) {
				r.node("elsewhere/nvidia-cap1", 0o666, 1, 1)
				r.link("dev/nvidia-caps", filepath.Join(r.dir, "elsewhere"))
			},
			map[int]driverroot.DeviceNode{},
		},
		"not those of the host while the driver root has nodes": {
			func(r *rendered) { r.node("host/dev/nvidia-caps/nvidia-cap1", 0o666, 508, 1) },
			map[int]driverroot.DeviceNode{},
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRendered(t)
			r.driver()
			c.render(r)
			if d := cmp.Diff(c.want, r.find().Caps); d != "" {
				t.Errorf("caps (-want +got):\n%s", d)
			}
		})
	}
}

// settle sets the times of change of all folders back, as if the installation
// were an old one.
func (r *rendered) settle() {
	r.t.Helper()
	err := filepath.WalkDir(r.dir, func(p string, e os.DirEntry, err error) error {
		if err != nil || !e.IsDir() {
			return err
		}
		return unix.UtimesNanoAt(unix.AT_FDCWD, p, []unix.Timespec{{Sec: 1_700_000_000}, {Sec: 1_700_000_000}}, 0)
	})
	assert.NilError(r.t, err)
}

func TestOutdated(t *testing.T) {
	const lib = "usr/lib/x86_64-linux-gnu/"
	remove := func(r *rendered, rel string) {
		assert.NilError(r.t, os.Remove(filepath.Join(r.dir, rel)))
	}
	type outdated struct{ Content, Extras bool }
	for name, c := range map[string]struct {
		change func(r *rendered)
		want   outdated
	}{
		"not while nothing changes": {func(*rendered) {}, outdated{}},
		"when a library is replaced": {
			func(r *rendered) {
				remove(r, lib+"libcuda.so."+version)
				r.library(lib+"libcuda.so."+version, "libcuda.so.1")
			}, outdated{Content: true},
		},
		"when a library comes":        {func(r *rendered) { r.library(lib+"libnvidia-x.so."+version, "") }, outdated{Content: true}},
		"when a program comes":        {func(r *rendered) { r.file("usr/bin/nvidia-smi", 0o755, nil) }, outdated{Content: true}},
		"when a folder comes":         {func(r *rendered) { r.library("opt/nvidia/lib64/libnvidia-x.so."+version, "") }, outdated{Content: true}},
		"when firmware comes":         {func(r *rendered) { r.file("lib/firmware/nvidia/"+version+"/gsp.bin", 0o644, nil) }, outdated{Content: true}},
		"when a daemon's folder goes": {func(r *rendered) { remove(r, "run/nvidia-persistenced") }, outdated{Content: true}},
		"when a link leads elsewhere": {
			func(r *rendered) { remove(r, "etc/alternatives/x"); r.link("etc/alternatives/x", "y") },
			// The configuration of GPUDirect Storage may be such a link.
			outdated{Content: true, Extras: true},
		},
		"when a node comes":                {func(r *rendered) { r.node("dev/gdrdrv", 0o666, 1, 1) }, outdated{true, true}},
		"when a capability comes":          {func(r *rendered) { r.node("dev/nvidia-caps/nvidia-cap2", 0o666, 1, 1) }, outdated{Content: true}},
		"when the host gets a node":        {func(r *rendered) { r.node("host/dev/nvidia-fs0", 0o666, 1, 1) }, outdated{true, true}},
		"not when other folders change":    {func(r *rendered) { r.file("run/other/file", 0o644, nil); r.file("tmp/file", 0o644, nil) }, outdated{}},
		"not when a file is only attended": {func(r *rendered) { r.settle() }, outdated{}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRendered(t)
			r.driver()
			r.node("dev/nvidia-caps/nvidia-cap1", 0o666, 508, 1)
			for _, dir := range []string{"run/nvidia-persistenced", "usr/bin", "tmp", "host/dev", "run/other"} {
				r.folder(dir)
			}
			r.link("etc/alternatives/x", "x")
			r.settle()
			content, extras := r.find(), r.root().FindExtras()
			c.change(r)
			if d := cmp.Diff(c.want, outdated{content.Outdated(), extras.Outdated()}); d != "" {
				t.Errorf("outdated (-want +got):\n%s", d)
			}
		})
	}
}

// TestOutdatedDoesNotTrustFreshFolders holds that a change is not missed which
// comes in the same moment in which the folder is read.
func TestOutdatedDoesNotTrustFreshFolders(t *testing.T) {
	r := newRendered(t)
	r.driver()
	if !r.find().Outdated() {
		t.Error("what was read while it changed counts as up to date")
	}
	r.settle()
	if r.find().Outdated() {
		t.Error("what was read after that counts as outdated")
	}
	if none := (&driverroot.Content{}); none.Outdated() {
		t.Error("what was not read from a driver root is outdated")
	}
}

func TestFindIsTheSameEachTime(t *testing.T) {
	r := newRendered(t)
	r.driver()
	r.extraNodes("dev")
	first := r.find()
	for range 20 {
		if d := cmp.Diff(first, r.find(), unmarked()); d != "" {
			t.Fatalf("Find() (-first +later):\n%s", d)
		}
	}
	if got := slices.Sorted(maps.Keys(first.Extras.IMEX)); !slices.Equal(got, []int{0, 12}) {
		t.Errorf("channels are %v", got)
	}
}
