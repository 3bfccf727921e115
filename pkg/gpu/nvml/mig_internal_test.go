package nvml

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/google/go-cmp/cmp"

	"outrigger.dev/pkg/gpu"
)

// fakeGPU is a GPU in MIG mode. Its devices are told by handle, which is what
// looking for an index gives; nil is a hole.
type fakeGPU struct {
	gonvml.Device
	mode    int
	devices []*fakeMIG
	// look is called before a device is looked for.
	look func()
	lost bool
}

func (g *fakeGPU) GetMemoryInfo() (gonvml.Memory, gonvml.Return) {
	if g.lost {
		return gonvml.Memory{}, gonvml.ERROR_GPU_IS_LOST
	}
	return gonvml.Memory{}, gonvml.SUCCESS
}

func (g *fakeGPU) GetMigMode() (int, int, gonvml.Return) { return g.mode, g.mode, gonvml.SUCCESS }

func (g *fakeGPU) GetMaxMigDeviceCount() (int, gonvml.Return) { return 7, gonvml.SUCCESS }

func (g *fakeGPU) GetMigDeviceHandleByIndex(i int) (gonvml.Device, gonvml.Return) {
	if g.look != nil {
		g.look()
	}
	if g.lost {
		return nil, gonvml.ERROR_GPU_IS_LOST
	}
	if i >= len(g.devices) || g.devices[i] == nil {
		return nil, gonvml.ERROR_NOT_FOUND
	}
	return g.devices[i], gonvml.SUCCESS
}

// fakeMIG is a MIG device of 1g.5gb.
type fakeMIG struct {
	gonvml.Device
	id int
	// fail is what it answers instead.
	fail gonvml.Return
	// asked is called when it is asked for its UUID.
	asked func()
}

func (m *fakeMIG) GetUUID() (string, gonvml.Return) {
	if m.asked != nil {
		m.asked()
	}
	return fmt.Sprintf("MIG-%d", m.id), m.fail
}

func (m *fakeMIG) GetGpuInstanceId() (int, gonvml.Return) { return 20 - m.id, m.fail } //nolint:revive // the name is go-nvml's

func (m *fakeMIG) GetComputeInstanceId() (int, gonvml.Return) { return 0, m.fail } //nolint:revive // the name is go-nvml's

func (m *fakeMIG) GetAttributes() (gonvml.DeviceAttributes, gonvml.Return) {
	return gonvml.DeviceAttributes{GpuInstanceSliceCount: 1, ComputeInstanceSliceCount: 1}, m.fail
}

func (m *fakeMIG) GetMemoryInfo() (gonvml.Memory, gonvml.Return) {
	return gonvml.Memory{Total: 4864 << 20}, gonvml.SUCCESS
}

// withMIG is a session on a library that has what MIG devices need, and no more.
func withMIG() *session {
	lib := &library{has: map[string]bool{symMIGMode: true}}
	for _, name := range migSymbols() {
		lib.has[name] = true
	}
	return &session{lib: lib}
}

func TestReadMIG(t *testing.T) {
	for name, c := range map[string]struct {
		gpu func(*fakeGPU)
		// want are the UUIDs in their order; a fault follows its device.
		want string
		err  string
	}{
		"the order is that of instances": {gpu: func(*fakeGPU) {}, want: "MIG-3 MIG-2 MIG-1"},
		"indices without device":         {gpu: func(g *fakeGPU) { g.devices[1] = nil }, want: "MIG-3 MIG-1"},
		"one that fails":                 {gpu: func(g *fakeGPU) { g.devices[1].fail = gonvml.ERROR_UNKNOWN }, want: "MIG-3 MIG-1  nvmlDeviceGetUUID"},
		"one that goes while it is read": {
			gpu: func(g *fakeGPU) {
				g.devices[1].fail = gonvml.ERROR_INVALID_ARGUMENT
				g.devices[1].asked = func() { g.devices[1] = nil }
			},
			want: "MIG-3 MIG-1",
		},
		"one that moves up while others are read": {
			gpu: func(g *fakeGPU) {
				g.devices[1].asked = func() { g.devices[2] = &fakeMIG{id: 2} }
			},
			want: "MIG-2 MIG-1",
		},
		"the GPU goes meanwhile": {gpu: func(g *fakeGPU) { g.lost = true }, err: symMIGHandle},
		"the driver goes meanwhile": {
			gpu: func(g *fakeGPU) { g.devices[2].fail = gonvml.ERROR_DRIVER_NOT_LOADED }, err: "nvmlDeviceGetUUID",
		},
	} {
		t.Run(name, func(t *testing.T) {
			fake := &fakeGPU{devices: []*fakeMIG{{id: 1}, {id: 2}, {id: 3}}}
			c.gpu(fake)
			g := gpu.GPU{MemoryBytes: 40960 << 20, MIG: &gpu.MIG{Enabled: true}}
			if err := withMIG().readMIG(fake, &g); (err != nil) != (c.err != "") || err != nil && err.op != c.err {
				t.Fatalf("readMIG() = %v, want an error of %q", err, c.err)
			}
			if c.err != "" {
				return
			}
			var got []string
			for _, d := range g.MIG.Devices {
				got = append(got, string(d.UUID))
				if d.Fault != nil {
					got = append(got, d.Fault.Op)
				} else if d.Profile.String() != "1g.5gb" {
					t.Errorf("device %s is a %q, want a 1g.5gb", d.UUID, d.Profile)
				}
			}
			if s := strings.Join(got, " "); s != c.want {
				t.Errorf("devices are %q, want %q", s, c.want)
			}
		})
	}
}

func TestReadMIGWithoutSymbols(t *testing.T) {
	s := withMIG()
	delete(s.lib.has, symAttributes)
	err := s.readMIG(&fakeGPU{}, &gpu.GPU{MIG: &gpu.MIG{Enabled: true}})
	if err == nil || err.op != symAttributes || driverGone(err.ret) {
		t.Errorf("readMIG() = %+v, want that the library lacks %s", err, symAttributes)
	}
}

// watching returns a watch of one GPU, and where its events go.
func watching(g *watched) (*watch, *[]gpu.Event) {
	var events []gpu.Event
	return &watch{
		sess: withMIG(), log: slog.New(slog.DiscardHandler), gpus: []*watched{g},
		deliver: func(e gpu.Event) { events = append(events, e) },
	}, &events
}

func TestMIGChangesAreSeenWhereTheyAreNotTold(t *testing.T) {
	fake := &fakeGPU{mode: gonvml.DEVICE_MIG_ENABLE, devices: []*fakeMIG{{id: 1}}}
	w, events := watching(&watched{handle: fake, id: "GPU-1", events: gonvml.EventTypeXidCriticalError})
	for _, step := range []struct {
		what   string
		change func()
		told   bool
	}{
		{"the first look", func() {}, false},
		{"nothing", func() {}, false},
		{"a device comes", func() { fake.devices = append(fake.devices, &fakeMIG{id: 2}) }, true},
		{"a device is another", func() { fake.devices[0] = &fakeMIG{id: 3} }, true},
		{"the mode is off", func() { fake.mode = 0 }, true},
		{"nothing again", func() {}, false},
	} {
		*events = nil
		step.change()
		w.probed = w.probed.Add(-probeEvery)
		if err := w.probe(); err != nil {
			t.Fatal(err)
		}
		want := []gpu.Event{{Kind: gpu.EventMIGChanged, GPU: "GPU-1", GPUInstance: gpu.NoInstance, ComputeInstance: gpu.NoInstance}}
		if !step.told {
			want = nil
		}
		if d := cmp.Diff(want, *events); d != "" {
			t.Errorf("%s: events (-want +got):\n%s", step.what, d)
		}
	}
	looks := 0
	fake.mode, fake.look = gonvml.DEVICE_MIG_ENABLE, func() { looks++ }
	w.gpus[0].events |= gonvml.EventMigConfigChange
	w.probed = w.probed.Add(-probeEvery)
	if err := w.probe(); err != nil || looks > 0 {
		t.Errorf("a GPU that tells was looked at %d times, %v", looks, err)
	}
}

func TestAnXIDIsACauseToAskTheGPU(t *testing.T) {
	fake, other := &fakeGPU{}, &fakeGPU{lost: true}
	w, events := watching(&watched{handle: fake, id: "GPU-1"})
	w.gpus = append(w.gpus, &watched{index: 1, handle: other, id: "GPU-2"})
	xid := gonvml.EventData{
		Device: fake, EventType: gonvml.EventTypeXidCriticalError, EventData: 119,
		GpuInstanceId: 3, ComputeInstanceId: 0xFFFFFFFF,
	}
	w.event(xid)
	fake.lost = true
	w.event(xid)
	told := gpu.Event{Kind: gpu.EventXID, GPU: "GPU-1", XID: 119, GPUInstance: 3, ComputeInstance: gpu.NoInstance}
	want := []gpu.Event{told, told, {Kind: gpu.EventLost, GPU: "GPU-1", GPUInstance: gpu.NoInstance, ComputeInstance: gpu.NoInstance}}
	if d := cmp.Diff(want, *events); d != "" {
		t.Errorf("events (-want +got):\n%s", d)
	}
}

func TestAttribute(t *testing.T) {
	small := gpu.Engines{GPUInstanceSlices: 1}
	media := gpu.Engines{GPUInstanceSlices: 1, Decoder: 1, JPEG: 1, OFA: 1}
	profiles := []profile{{id: 19, engines: small}, {id: 20, attribute: "+me", engines: media}, {id: 9, engines: gpu.Engines{GPUInstanceSlices: 3, Decoder: 2}}}
	twins := append(profiles[:2:2], profile{id: 47, attribute: "+gfx", engines: small})
	for name, c := range map[string]struct {
		profiles []profile
		in       instance
		has      gpu.Engines
		want     string
	}{
		"the instance is told":                      {profiles, instance{known: true, profile: 20}, media, "+me"},
		"it is told, and none has its number":       {profiles, instance{known: true, profile: 77}, media, ""},
		"it is known by its engines":                {profiles, instance{}, media, "+me"},
		"it is a plain one by its engines":          {profiles, instance{}, small, ""},
		"two kinds have its engines":                {twins, instance{}, small, ""},
		"two kinds have them and it is told":        {twins, instance{known: true, profile: 47}, small, "+gfx"},
		"nothing is known of profiles":              {nil, instance{known: true, profile: 20}, media, ""},
		"no profile has its engines":                {profiles, instance{}, gpu.Engines{GPUInstanceSlices: 7}, ""},
		"a part of it has the engines of the whole": {profiles, instance{}, gpu.Engines{GPUInstanceSlices: 1, Multiprocessors: 7, Decoder: 1, JPEG: 1, OFA: 1}, "+me"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := attribute(c.profiles, c.in, c.has); got != c.want {
				t.Errorf("attribute() = %q, want %q", got, c.want)
			}
		})
	}
	for n, want := range []string{0: "", 7: "+me", 8: "+me", 9: "", 10: "+gfx", 11: "+gfx", 12: "+gfx", 13: "-me", 14: "-me", 15: "+me.all", 16: "+me.all", 17: "+gfx", 99: ""} {
		if got := attributeOf(n); got != want {
			t.Errorf("attributeOf(%d) = %q, want %q", n, got, want)
		}
	}
}

func TestCapabilities(t *testing.T) {
	text := "config 1\nmonitor 2\ngpu0/gi1/access 12\ngpu0/gi1/ci0/access 13\ngpu0/gi1/ci1/access 14\n" +
		"gpu0/gi1/ci2/access x\ngpu0/gi1/ci3/access 5 6\ngpu/gi1/access 1\ngpu0/gi/access 1\ngpu10/gi1/access 1362\n"
	asked := map[capability]int{
		{0, 1, noCap}: noCap, {0, 1, 1}: noCap, {0, 1, 2}: noCap, {0, 1, 3}: noCap, {10, 1, noCap}: noCap, {1, 1, noCap}: noCap,
	}
	if err := parseCaps(strings.NewReader(text), asked); err != nil {
		t.Fatal(err)
	}
	want := map[capability]int{
		{0, 1, noCap}: 12, {0, 1, 1}: 14, {0, 1, 2}: noCap, {0, 1, 3}: noCap, {10, 1, noCap}: 1362, {1, 1, noCap}: noCap,
	}
	if d := cmp.Diff(want, asked); d != "" {
		t.Errorf("parseCaps() (-want +got):\n%s", d)
	}
}

func TestADeviceWithoutCapabilityCannotBeGiven(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, "driver/nvidia-caps")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "mig-minors"), []byte("gpu4/gi1/access 12\ngpu4/gi1/ci0/access 13\ngpu4/gi2/access 21\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	of := func(gi uint32) gpu.MIGDevice {
		return gpu.MIGDevice{GPUInstance: gi, GPUInstanceCap: noCap, ComputeInstanceCap: noCap}
	}
	devices := []device{{gpu: gpu.GPU{Minor: 4, MIG: &gpu.MIG{Devices: []gpu.MIGDevice{of(1), of(2), of(gpu.NoInstance)}}}}}
	fillCaps(root, devices)
	got := devices[0].gpu.MIG.Devices
	if d := got[0]; d.GPUInstanceCap != 12 || d.ComputeInstanceCap != 13 || d.Fault != nil {
		t.Errorf("device = %+v, want its capabilities", d)
	}
	if d := got[1]; d.GPUInstanceCap != 21 || d.Fault == nil || !strings.Contains(d.Fault.Reason, "gpu4/gi2/ci0") {
		t.Errorf("device = %+v, want a fault that names what is missing", d)
	}
	if d := got[2]; d.GPUInstanceCap != noCap || d.Fault != nil {
		t.Errorf("device = %+v, want it untouched", d)
	}
}

func TestFieldNumber(t *testing.T) {
	v := gonvml.FieldValue{Value: [8]byte{1, 2, 0, 0, 1}}
	for kind, want := range map[gonvml.ValueType]uint64{
		gonvml.VALUE_TYPE_UNSIGNED_INT: 0x201, gonvml.VALUE_TYPE_UNSIGNED_LONG_LONG: 0x100000201, gonvml.VALUE_TYPE_UNSIGNED_SHORT: 0x201,
	} {
		v.ValueType = uint32(kind)
		if got := fieldNumber(v); got != want {
			t.Errorf("fieldNumber() of type %d = %#x, want %#x", kind, got, want)
		}
	}
	if got := recoveryOf(77); !got.Needed() {
		t.Errorf("recoveryOf() of an unknown action = %q, want one that is needed", got)
	}
}

func TestMarkDoublesOfMIGDevices(t *testing.T) {
	mig := func(ids ...gpu.UUID) *gpu.MIG {
		m := &gpu.MIG{}
		for i, id := range ids {
			m.Devices = append(m.Devices, gpu.MIGDevice{Index: i, UUID: id})
		}
		return m
	}
	devices := []device{
		{gpu: gpu.GPU{Index: 0, UUID: "GPU-a", MIG: mig("MIG-1", "GPU-b")}},
		{gpu: gpu.GPU{Index: 1, UUID: "GPU-b", MIG: mig("MIG-1", "MIG-2")}},
	}
	markDoubles(devices)
	a, b := devices[0].gpu, devices[1].gpu
	if b.Fault != nil || a.MIG.Devices[0].Fault != nil || b.MIG.Devices[1].Fault != nil {
		t.Errorf("devices = %+v, want no fault of those that come first", devices)
	}
	for _, d := range []gpu.MIGDevice{a.MIG.Devices[1], b.MIG.Devices[0]} {
		if d.UUID != "" || d.Fault == nil {
			t.Errorf("device = %+v, want a fault and no UUID", d)
		}
	}
}
