package reader

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/google/go-cmp/cmp"
	"gotest.tools/v3/assert"

	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/nvml"
)

// fakeGPU is a GPU in MIG mode. A nil device is an index without one.
type fakeGPU struct {
	gonvml.Device
	mode    int
	devices []*fakeMIG
	lost    bool
	minor   int
	// asked counts how often it was asked for its mode.
	asked int
}

func (g *fakeGPU) GetFieldValues([]gonvml.FieldValue) gonvml.Return { return gonvml.SUCCESS }

func (g *fakeGPU) GetMemoryInfo() (gonvml.Memory, gonvml.Return) {
	if g.lost {
		return gonvml.Memory{}, gonvml.ERROR_GPU_IS_LOST
	}
	return gonvml.Memory{}, gonvml.SUCCESS
}

func (g *fakeGPU) GetMigMode() (int, int, gonvml.Return) {
	g.asked++
	return g.mode, g.mode, gonvml.SUCCESS
}

func (g *fakeGPU) GetMinorNumber() (int, gonvml.Return) { return g.minor, gonvml.SUCCESS }

func (g *fakeGPU) GetMaxMigDeviceCount() (int, gonvml.Return) { return 7, gonvml.SUCCESS }

func (g *fakeGPU) GetMigDeviceHandleByIndex(i int) (gonvml.Device, gonvml.Return) {
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
		"the GPU goes meanwhile": {gpu: func(g *fakeGPU) { g.lost = true }, err: "nvmlDeviceGetMigDeviceHandleByIndex"},
		"the driver goes meanwhile": {
			gpu: func(g *fakeGPU) { g.devices[2].fail = gonvml.ERROR_DRIVER_NOT_LOADED }, err: "nvmlDeviceGetUUID",
		},
	} {
		t.Run(name, func(t *testing.T) {
			fake := &fakeGPU{devices: []*fakeMIG{{id: 1}, {id: 2}, {id: 3}}}
			c.gpu(fake)
			g := gpu.GPU{MemoryBytes: 40960 << 20, MIG: &gpu.MIG{Enabled: true}}
			v, h := viewOfGPU(t, fake, "nvmlDeviceGetGpuInstanceById", "nvmlDeviceGetGpuInstanceProfileInfo")
			if err := v.readMIG(h, &g); (err != nil) != (c.err != "") || err != nil && nvml.Fault(err).Op != c.err {
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
	const symbol = "nvmlDeviceGetAttributes_v2"
	v, h := viewOfGPU(t, &fakeGPU{devices: []*fakeMIG{{id: 1}}}, symbol)
	err := v.readMIG(h, &gpu.GPU{MIG: &gpu.MIG{Enabled: true}})
	if err == nil || nvml.Fault(err).Op != symbol || nvml.DriverGone(err) {
		t.Errorf("readMIG() = %v, want that the library lacks %s", err, symbol)
	}
}

// watching returns a watch of GPUs, and where its events go.
func watching(t *testing.T, gpus ...gonvml.Device) (*watch, *[]gpu.Event) {
	t.Helper()
	events := new([]gpu.Event)
	v := viewOf(t, &fakeNVML{gpus: gpus})
	w := &watch{
		view: v, times: soon, probed: time.Now(), log: slog.New(slog.DiscardHandler),
		deliver: func(e gpu.Event) { *events = append(*events, e) },
	}
	for i := range gpus {
		w.gpus = append(w.gpus, &watched{index: i, handle: v.handleOf(t, i)})
		v.memory.storeConstants(gpu.GPU{Index: i, Minor: noMinor, UUID: gpu.UUID(fmt.Sprintf("GPU-%d", i+1))}, symUUID)
	}
	return w, events
}

func TestMIGChangesThatNVMLDoesNotReport(t *testing.T) {
	fakes := []*fakeGPU{{minor: 4}, {minor: 5, mode: gonvml.DEVICE_MIG_ENABLE}}
	w, events := watching(t, fakes[0], fakes[1])
	instance := func(path string) string {
		return filepath.Join(string(w.view.proc), "driver/nvidia/capabilities/gpu5/mig", path)
	}
	folder := func(path string) {
		assert.NilError(t, os.MkdirAll(instance(path), 0o755))
	}
	folder("gi1/ci0")
	for _, g := range w.gpus {
		g.events = gonvml.EventTypeXidCriticalError
		assert.NilError(t, w.readMIGState(g))
	}
	for _, step := range []struct {
		what    string
		change  func()
		changed gpu.UUID
	}{
		{"nothing", func() {}, ""},
		{"a GPU instance comes", func() { folder("gi2") }, "GPU-2"},
		{"a compute instance comes", func() { folder("gi2/ci0") }, "GPU-2"},
		{"an instance goes", func() { _ = os.RemoveAll(instance("gi1")) }, "GPU-2"},
		{"the mode of the first GPU", func() { fakes[0].mode = gonvml.DEVICE_MIG_ENABLE }, "GPU-1"},
		{"the mode of the second GPU", func() { fakes[1].mode = 0 }, "GPU-2"},
		{"nothing again", func() {}, ""},
	} {
		*events = nil
		step.change()
		asked := fakes[0].asked + fakes[1].asked
		if err := w.probe(); err != nil { // each of them is asked for its mode once
			t.Fatal(err)
		}
		var want []gpu.Event
		if step.changed != "" {
			want = []gpu.Event{gpu.GPUEvent(gpu.EventMIGChanged, step.changed)}
		}
		if d := cmp.Diff(want, *events); d != "" {
			t.Errorf("%s: events (-want +got):\n%s", step.what, d)
		}
		if n := fakes[0].asked + fakes[1].asked - asked; n != len(w.gpus) {
			t.Errorf("%s: %d calls in a probe, want %d", step.what, n, len(w.gpus))
		}
	}
	asked := fakes[0].asked + fakes[1].asked
	for _, g := range w.gpus {
		g.events |= gonvml.EventMigConfigChange
	}
	folder("gi3")
	*events = nil
	if err := w.probe(); err != nil || len(*events) > 0 || fakes[0].asked+fakes[1].asked != asked {
		t.Errorf("GPUs that report changes were asked, error %v, events %v", err, *events)
	}
}

func TestAnXIDIsACauseToAskTheGPU(t *testing.T) {
	fake := &fakeGPU{}
	w, events := watching(t, fake, &fakeGPU{lost: true})
	xid := nvml.Event{Device: w.gpus[0].handle, EventData: gonvml.EventData{
		EventType: gonvml.EventTypeXidCriticalError, EventData: 119, GpuInstanceId: 3, ComputeInstanceId: 0xFFFFFFFF,
	}}
	w.event(xid)
	fake.lost = true
	w.event(xid)
	reported := gpu.Event{Kind: gpu.EventXID, GPU: "GPU-1", XID: 119, GPUInstance: 3, ComputeInstance: gpu.NoInstance}
	want := []gpu.Event{reported, reported, {Kind: gpu.EventLost, GPU: "GPU-1", GPUInstance: gpu.NoInstance, ComputeInstance: gpu.NoInstance}}
	if d := cmp.Diff(want, *events); d != "" {
		t.Errorf("events (-want +got):\n%s", d)
	}
}
