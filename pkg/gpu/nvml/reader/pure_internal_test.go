package reader

import (
	"os"
	"path/filepath"
	"testing"

	gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"gotest.tools/v3/assert"

	"outrigger.dev/pkg/driverproc"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/nvml"
)

func TestBusID(t *testing.T) {
	for name, c := range map[string]struct {
		info gonvml.PciInfo
		text string
		want string
	}{
		"a common place":              {gonvml.PciInfo{Bus: 0x17}, "00000000:17:00.0", "0000:17:00.0"},
		"a domain of five digits":     {gonvml.PciInfo{Domain: 0x10000, Bus: 0xe1}, "00010000:E1:00.0", "10000:e1:00.0"},
		"a function that is not zero": {gonvml.PciInfo{Bus: 0x17, Device: 2}, "00000000:17:02.1", "0000:17:02.1"},
		"no text":                     {gonvml.PciInfo{Bus: 0x17}, "", "0000:17:00.0"},
	} {
		t.Run(name, func(t *testing.T) {
			for i, b := range []byte(c.text) {
				c.info.BusId[i] = int8(b)
			}
			if got := nvml.PCI(c.info).BusID; got != c.want {
				t.Errorf("PCI().BusID = %q, want %q", got, c.want)
			}
		})
	}
}

func TestIdentify(t *testing.T) {
	fault := &gpu.Fault{Op: "nvmlDeviceGetHandleByIndex_v2", Reason: "GPU is lost"}
	silent := func(index int) device {
		return device{gpu: gpu.GPU{Index: index, Minor: noMinor, Fault: fault}}
	}
	works := func(index int, id string) device {
		return device{gpu: gpu.GPU{Index: index, Minor: index, UUID: "GPU-nvml", PCI: gpu.PCI{BusID: id}}}
	}
	kernel := []driverproc.GPU{
		{BusID: "0000:07:00.0", UUID: "GPU-a", Name: "A", Minor: 0},
		{BusID: "0000:0f:00.0", UUID: "GPU-b", Name: "B", Minor: 1},
		{BusID: "0000:17:00.0", UUID: "GPU-c", Name: "C", Minor: 2},
	}
	known := func(d device, p driverproc.GPU) device {
		d.gpu.PCI.BusID, d.gpu.UUID, d.gpu.Name, d.gpu.Minor = p.BusID, p.UUID, p.Name, p.Minor
		return d
	}
	for name, c := range map[string]struct {
		devices []device
		kernel  []driverproc.GPU
		want    []device
	}{
		"one is left over": {
			[]device{works(0, "0000:07:00.0"), silent(1), works(2, "0000:17:00.0")},
			kernel,
			[]device{works(0, "0000:07:00.0"), known(silent(1), kernel[1]), works(2, "0000:17:00.0")},
		},
		"two are left over, in the order of the bus": {
			[]device{silent(0), works(1, "0000:0f:00.0"), silent(2)},
			kernel,
			[]device{known(silent(0), kernel[0]), works(1, "0000:0f:00.0"), known(silent(2), kernel[2])},
		},
		"more are left over than are silent": {
			[]device{silent(0), works(1, "0000:0f:00.0")},
			kernel,
			[]device{silent(0), works(1, "0000:0f:00.0")},
		},
		"the kernel reports nothing": {
			[]device{silent(0)},
			nil,
			[]device{silent(0)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			for i := range c.want {
				if id := c.want[i].gpu.PCI.BusID; c.want[i].gpu.Fault == nil {
					for _, p := range c.kernel {
						if p.BusID == id {
							c.want[i].gpu.Name = p.Name
						}
					}
				}
			}
			identify(c.devices, c.kernel)
			if d := cmp.Diff(c.want, c.devices, cmp.AllowUnexported(device{}), cmpopts.IgnoreFields(device{}, "handle")); d != "" {
				t.Errorf("identify() (-want +got):\n%s", d)
			}
		})
	}
}

func TestMarkDoubles(t *testing.T) {
	devices := []device{
		{gpu: gpu.GPU{Index: 0, UUID: "GPU-a"}},
		{gpu: gpu.GPU{Index: 1, UUID: "GPU-a"}},
		{gpu: gpu.GPU{Index: 2}},
		{gpu: gpu.GPU{Index: 3}},
	}
	markDoubles(devices)
	if devices[0].gpu.Fault != nil || devices[0].gpu.UUID != "GPU-a" {
		t.Errorf("the first GPU = %+v, want it untouched", devices[0].gpu)
	}
	if f := devices[1].gpu.Fault; f == nil || devices[1].gpu.UUID != "" {
		t.Errorf("the second GPU = %+v, want a fault and no UUID", devices[1].gpu)
	}
	if devices[3].gpu.Fault != nil {
		t.Errorf("a GPU without UUID = %+v, want it untouched", devices[3].gpu)
	}
}

func TestJoin(t *testing.T) {
	a, b := gpu.GPU{Index: 2, PCI: gpu.PCI{BusID: "a"}}, gpu.GPU{Index: 5, PCI: gpu.PCI{BusID: "b"}}
	for name, c := range map[string]struct {
		fromA, fromB nvlinks
		want         gpu.Link
	}{
		"no NVLink":                      {want: gpu.Link{A: 2, B: 5}},
		"direct links":                   {fromA: nvlinks{peers: map[string]int{"b": 4, "c": 8}}, want: gpu.Link{A: 2, B: 5, NVLinks: 4}},
		"a switch for both":              {fromA: nvlinks{switches: 18}, fromB: nvlinks{switches: 17}, want: gpu.Link{A: 2, B: 5, NVSwitch: 17}},
		"a switch for one of them alone": {fromA: nvlinks{switches: 18}, want: gpu.Link{A: 2, B: 5}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := join(a, b, c.fromA, c.fromB); got != c.want {
				t.Errorf("join() = %+v, want %+v", got, c.want)
			}
		})
	}
}

func TestPath(t *testing.T) {
	for level, want := range map[gonvml.GpuTopologyLevel]gpu.Path{
		gonvml.TOPOLOGY_INTERNAL: gpu.PathBoard, gonvml.TOPOLOGY_SINGLE: gpu.PathSwitch,
		gonvml.TOPOLOGY_MULTIPLE: gpu.PathSwitches, gonvml.TOPOLOGY_HOSTBRIDGE: gpu.PathHostBridge,
		gonvml.TOPOLOGY_NODE: gpu.PathNUMANode, gonvml.TOPOLOGY_SYSTEM: gpu.PathSystem, 77: gpu.PathUndetermined,
	} {
		if got := pathOf(level); got != want {
			t.Errorf("path(%d) = %q, want %q", level, got, want)
		}
	}
}

func TestIsBridge(t *testing.T) {
	sys := t.TempDir()
	put := func(id, file, text string) {
		dir := filepath.Join(sys, "bus/pci/devices", id)
		assert.NilError(t, os.MkdirAll(dir, 0o755))
		assert.NilError(t, os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600))
	}
	put("0000:c1:00.0", "class", "0x068000\n")
	put("0000:07:00.0", "class", "0x030200\n")
	for id, want := range map[string]bool{"0000:c1:00.0": true, "0000:07:00.0": false, "0000:ff:00.0": false} {
		if got := isBridge(sys, id); got != want {
			t.Errorf("isBridge(%s) = %v, want %v", id, got, want)
		}
	}
}

func TestDisplaysTakeNoWork(t *testing.T) {
	for name, want := range map[string]bool{
		"DGX Display": true, "NVIDIA DGX Display": true, "NVIDIA A100-SXM4-40GB": false, "": false,
	} {
		if got := isDisplay(name); got != want {
			t.Errorf("isDisplay(%q) = %v, want %v", name, got, want)
		}
	}
}
