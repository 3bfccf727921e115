package facts_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gotest.tools/v3/assert"

	"outrigger.dev/agents/container-toolkit/internal/facts"
	"outrigger.dev/pkg/gpu"
)

func names(g *gpu.GPU) []string { return []string{string(g.UUID)} }

func TestDeriveSpellsAsRequirementsDo(t *testing.T) {
	for brand, want := range map[string]string{
		"Tesla": "tesla", "GeForceRTX": "geforcertx", "NvidiaRTX": "nvidiartx", "Nvidia": "nvidia", "NvidiaVApps": "vapps",
		"NvidiaCloudGaming": "cloudgaming", "QuadroRTX": "quadrortx", "": "unknown",
	} {
		n := &gpu.Node{
			Driver: gpu.Driver{Version: "580.95.05", NVMLVersion: "13.580.95.05", CUDA: gpu.Version{Major: 13}},
			GPUs:   []gpu.GPU{{UUID: "GPU-1", Brand: brand, ComputeCapability: gpu.Version{Major: 9}}},
		}
		got := facts.Derive(n, names)
		if d := cmp.Diff(&facts.Facts{Driver: "580.95.05", CUDA: "13.0", GPUs: []facts.GPU{{Names: []string{"GPU-1"}, Arch: "9.0", Brand: want}}}, got); d != "" {
			t.Errorf("facts of the brand %q (-want +got):\n%s", brand, d)
		}
	}
}

func TestWithoutNVMLNothingIsGuessed(t *testing.T) {
	got := facts.Derive(&gpu.Node{Driver: gpu.Driver{Version: "580.95.05"}, GPUs: []gpu.GPU{{UUID: "GPU-1"}}}, names)
	if d := cmp.Diff(&facts.Facts{Driver: "580.95.05", GPUs: []facts.GPU{{Names: []string{"GPU-1"}}}}, got); d != "" {
		t.Errorf("facts (-want +got):\n%s", d)
	}
}

func TestOf(t *testing.T) {
	f := facts.Facts{GPUs: []facts.GPU{{Names: []string{"0", "GPU-a"}, Arch: "8.0"}, {Names: []string{"1", "1:0", "MIG-b"}, Arch: "9.0"}}}
	for device, want := range map[string]int{"0": 1, "GPU-a": 1, "1:0": 1, "all": 2, "none": 0, "7": 0} {
		if got := f.ForDevice(device); len(got) != want {
			t.Errorf("Of(%s) = %v, want %d GPUs", device, got, want)
		}
	}
	if got := f.ForDevice("MIG-b"); len(got) != 1 || got[0].Arch != "9.0" {
		t.Errorf("a MIG device has the facts %v, want those of its GPU", got)
	}
}

func TestReadFindsTheFactsOfThisSpecAlone(t *testing.T) {
	spec := filepath.Join(t.TempDir(), "nvidia.com-gpu.json")
	data := []byte(`{"kind":"nvidia.com/gpu"}`)
	want := &facts.Facts{Driver: "580.95.05", CUDA: "13.0", GPUs: []facts.GPU{{Names: []string{"0"}, Arch: "9.0", Brand: "tesla"}}}
	if got, err := facts.Read(spec, data); got != nil || err != nil {
		t.Errorf("Read() without a file = %v, %v, want none", got, err)
	}
	assert.NilError(t, facts.Write(spec, data, want))
	got, err := facts.Read(spec, data)
	if err != nil || got == nil {
		t.Fatalf("Read() = %v, %v", got, err)
	}
	got.Spec = ""
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("facts (-want +got):\n%s", d)
	}
	if got, err := facts.Read(spec, append(data, '\n')); got != nil || err != nil {
		t.Errorf("Read() for a spec that was edited = %v, %v, want none", got, err)
	}
	for name, text := range map[string]string{"cut": `{"spec":"`, "not text": "\x00"} {
		assert.NilError(t, os.WriteFile(facts.Path(spec), []byte(text), 0o600))
		if got, err := facts.Read(spec, data); err == nil {
			t.Errorf("Read() of a file that is %s = %v, want an error", name, got)
		}
	}
}

func TestPath(t *testing.T) {
	for spec, want := range map[string]string{
		"/var/run/cdi/nvidia.yaml": "/var/run/cdi/nvidia.facts", "/etc/cdi/nvidia.com-gpu.json": "/etc/cdi/nvidia.com-gpu.facts", "/x": "/x.facts",
	} {
		if got := facts.Path(spec); got != want {
			t.Errorf("Path(%s) = %s, want %s", spec, got, want)
		}
	}
}
