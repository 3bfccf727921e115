package nvml

import (
	"fmt"
	"log/slog"
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
