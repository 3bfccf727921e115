package reader

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"
	"gotest.tools/v3/assert"

	"outrigger.dev/pkg/driverproc"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/nvml/profile"
)

func TestAttribute(t *testing.T) {
	info := func(id, slices, media uint32) gonvml.GpuInstanceProfileInfo {
		return gonvml.GpuInstanceProfileInfo{Id: id, SliceCount: slices, DecoderCount: media, JpegCount: media, OfaCount: media}
	}
	small := gpu.Engines{GPUInstanceSlices: 1}
	media := gpu.Engines{GPUInstanceSlices: 1, Decoder: 1, JPEG: 1, OFA: 1}
	profiles := []profile.Profile{{Info: info(19, 1, 0)}, {Info: info(20, 1, 1), Attribute: "+me"}, {Info: info(9, 3, 2)}}
	twins := append(profiles[:2:2], profile.Profile{Info: info(47, 1, 0), Attribute: "+gfx"})
	for name, c := range map[string]struct {
		profiles []profile.Profile
		in       instance
		has      gpu.Engines
		want     string
	}{
		"the instance is known":                      {profiles, instance{known: true, profile: 20}, media, "+me"},
		"it is known, and no profile has its number": {profiles, instance{known: true, profile: 77}, media, ""},
		"it is known by its engines":                 {profiles, instance{}, media, "+me"},
		"it is a plain one by its engines":           {profiles, instance{}, small, ""},
		"two kinds have its engines":                 {twins, instance{}, small, ""},
		"two kinds have them and it is known":        {twins, instance{known: true, profile: 47}, small, "+gfx"},
		"nothing is known of profiles":               {nil, instance{known: true, profile: 20}, media, ""},
		"no profile has its engines":                 {profiles, instance{}, gpu.Engines{GPUInstanceSlices: 7}, ""},
		"a part of it has the engines of the whole":  {profiles, instance{}, gpu.Engines{GPUInstanceSlices: 1, Multiprocessors: 7, Decoder: 1, JPEG: 1, OFA: 1}, "+me"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := attribute(c.profiles, c.in, c.has); got != c.want {
				t.Errorf("attribute() = %q, want %q", got, c.want)
			}
		})
	}
}

func TestADeviceWithoutCapabilityCannotBeGiven(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, "driver/nvidia-caps")
	assert.NilError(t, os.MkdirAll(dir, 0o755))
	assert.NilError(t, os.WriteFile(filepath.Join(dir, "mig-minors"), []byte("gpu4/gi1/access 12\ngpu4/gi1/ci0/access 13\ngpu4/gi2/access 21\n"), 0o600))
	of := func(gi uint32) gpu.MIGDevice {
		return gpu.MIGDevice{GPUInstance: gi, GPUInstanceCap: noCap, ComputeInstanceCap: noCap}
	}
	devices := []device{{gpu: gpu.GPU{Minor: 4, MIG: &gpu.MIG{Devices: []gpu.MIGDevice{of(1), of(2), of(gpu.NoInstance)}}}}}
	fillCaps(driverproc.Root(root), devices)
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
