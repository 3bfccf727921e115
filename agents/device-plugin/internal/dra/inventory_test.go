package dra_test

import (
	"bytes"
	"encoding/json"
	"slices"
	"testing"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/golden"

	"outrigger.dev/agents/device-plugin/internal/dra"
	"outrigger.dev/pkg/config"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/gputest"
	"outrigger.dev/pkg/health"
	"outrigger.dev/pkg/resource"
)

// divided is a node of one whole GPU, one with two MIG devices, and one that is
// in MIG mode without any.
func divided() *gpu.Node {
	n := gputest.Node(gputest.A100, 3)
	n.GPUs[1].MIG = &gpu.MIG{Enabled: true, Pending: true, Devices: []gpu.MIGDevice{
		{
			UUID: "MIG-1", GPUInstance: 2, Profile: gpu.Profile{ComputeSlices: 3, GPUSlices: 3, GB: 20},
			MemoryBytes: 20 << 30, Engines: gpu.Engines{Multiprocessors: 42, Copy: 3, Decoder: 2},
		},
		{UUID: "MIG-2", Index: 1, GPUInstance: 9, Profile: gpu.Profile{ComputeSlices: 1, GPUSlices: 1, GB: 5}, MemoryBytes: 5 << 30},
	}}
	n.GPUs[2].MIG = &gpu.MIG{Enabled: true, Pending: true}
	return n
}

func TestInventoryGolden(t *testing.T) {
	n := divided()
	set := resource.Derive(n, health.View{}, config.Config{MIGStrategy: config.MIGStrategyMixed})
	var got bytes.Buffer
	enc := json.NewEncoder(&got)
	enc.SetIndent("", "  ")
	for _, d := range dra.Inventory(n, set) {
		assert.NilError(t, enc.Encode(d.Spec))
	}
	golden.Assert(t, got.String(), "divided.golden")
}

func TestVersionsAreSemantic(t *testing.T) {
	for driver, want := range map[string]string{
		"580.95.05": "580.95.5", "550.54": "550.54.0", "535.00.0": "535.0.0", "": "", "r580": "", "1.2.3.4": "", "1..2": "",
	} {
		n := gputest.Node(gputest.L4, 1)
		n.Driver.Version = driver
		devices := dra.Inventory(n, resource.Derive(n, health.View{}, config.Config{MIGStrategy: config.MIGStrategyMixed}))
		if len(devices) != 1 {
			t.Fatalf("%d devices, want 1", len(devices))
		}
		got := ""
		if v := devices[0].Spec.Attributes["driverVersion"].VersionValue; v != nil {
			got = *v
		}
		if got != want {
			t.Errorf("driver %q is version %q, want %q", driver, got, want)
		}
	}
}

// A device whose usual name another device had first has another name.
func TestNamesOfDevicesThatCameLater(t *testing.T) {
	n := divided()
	seven, nine := 7, 9
	n.GPUs[0].Alias, n.GPUs[1].MIG.Devices[0].Alias = &seven, &nine
	var got []string
	for _, d := range dra.Inventory(n, resource.Derive(n, health.View{}, config.Config{MIGStrategy: config.MIGStrategyMixed})) {
		if got = append(got, d.Name); d.Name != d.Spec.Name {
			t.Errorf("%s is %s in the ResourceSlice", d.Name, d.Spec.Name)
		}
	}
	if want := []string{"gpu-1-mig-2-0-9", "gpu-1-mig-9-0", "gpu-7"}; !slices.Equal(got, want) {
		t.Errorf("names %v, want %v", got, want)
	}
}
