package reader_test

import (
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"

	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/gputest"
)

// The number of NVML calls is what carries over to hardware.
func TestSnapshotMakesFewCalls(t *testing.T) {
	const gpus, links = 8, 18
	for name, c := range map[string]struct {
		set   []string
		want  map[string]int
		total int
	}{
		"of a new driver": {
			want:  map[string]int{"nvmlDeviceGetNvLinkState": 0, "nvmlDeviceGetFieldValues": 2 * gpus},
			total: 133,
		},
		"of a driver without field values": {
			set:   []string{"nvmlDeviceGetFieldValues.return=3"},
			want:  map[string]int{"nvmlDeviceGetNvLinkState": gpus * (links + 1), "nvmlDeviceGetRemappedRows": gpus},
			total: 293,
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSim(t, "--gpus=8", "--model=h100-80")
			for _, set := range c.set {
				s.run("set", set)
			}
			src := s.source(nil)
			defer closeSource(t, src)
			snapshot(t, src)
			s.calls()
			if n := len(snapshot(t, src).Links); n != gpus*(gpus-1)/2 {
				t.Errorf("the node has %d links", n)
			}
			calls, total := s.calls(), 0
			maps.Copy(c.want, map[string]int{
				"nvmlInit_v2":                         0,
				"nvmlDeviceGetCount_v2":               1,
				"nvmlDeviceGetHandleByIndex_v2":       gpus,
				"nvmlDeviceGetUUID":                   gpus,
				"nvmlDeviceGetMemoryInfo":             gpus,
				"nvmlDeviceGetTopologyCommonAncestor": 16, // of 28 pairs, on two sockets
				"nvmlDeviceGetNvLinkRemotePciInfo_v2": 0,
				"nvmlDeviceGetNvLinkRemoteDeviceType": gpus,
				"nvmlDeviceGetCudaComputeCapability":  gpus,
				"nvmlSystemGetCudaDriverVersion_v2":   1,
				"nvmlDeviceGetGpuFabricInfoV":         gpus,
				"nvmlDeviceGetGpuFabricInfo":          0,
				"nvmlDeviceGetMaxMigDeviceCount":      0,
				"nvmlDeviceGetMigDeviceHandleByIndex": 0,
				"nvmlDeviceGetGpuInstanceProfileInfo": 0,
			})
			for symbol, want := range c.want {
				if calls[symbol] != want {
					t.Errorf("%s was called %d times, want %d", symbol, calls[symbol], want)
				}
			}
			for _, n := range calls {
				total += n
			}
			if total > c.total {
				t.Errorf("a snapshot makes %d calls, want at most %d: %v", total, c.total, calls)
			}
		})
	}
}

func TestSnapshotOfMIGDevicesMakesFewCalls(t *testing.T) {
	s := sevens(t, 8)
	src := s.source(nil)
	defer closeSource(t, src)
	snapshot(t, src)
	const gpus, devices, enums, profiles = 8, 56, 19, 7
	first := s.calls()
	if n := first["nvmlDeviceGetGpuInstanceProfileInfo"]; n != enums {
		t.Errorf("profiles were asked for %d times, want once for each of %d, %d of which the GPUs have", n, enums, profiles)
	}
	node := snapshot(t, src)
	calls := s.calls()
	for symbol, want := range map[string]int{
		"nvmlDeviceGetMaxMigDeviceCount":      gpus,
		"nvmlDeviceGetMigDeviceHandleByIndex": devices,
		"nvmlDeviceGetUUID":                   gpus + devices,
		"nvmlDeviceGetGpuInstanceId":          devices,
		"nvmlDeviceGetComputeInstanceId":      devices,
		"nvmlDeviceGetAttributes_v2":          devices,
		"nvmlDeviceGetGpuInstanceById":        devices, // each has an instance of its own
		"nvmlGpuInstanceGetInfo":              devices,
		"nvmlDeviceGetMemoryInfo":             gpus,
		"nvmlDeviceGetGpuInstanceProfileInfo": 0,
	} {
		if calls[symbol] != want {
			t.Errorf("%s was called %d times, want %d", symbol, calls[symbol], want)
		}
	}
	total := 0
	for _, n := range calls {
		total += n
	}
	if limit := 533; total > limit {
		t.Errorf("a snapshot makes %d calls, want at most %d: %v", total, limit, calls)
	}
	for _, g := range node.GPUs {
		if d := cmp.Diff(s.mig(g.UUID, gputest.H100), g.MIG); d != "" || g.Fault != nil {
			t.Errorf("GPU %d has the fault %v, MIG (-want +got):\n%s", g.Index, g.Fault, d)
		}
	}
}

func BenchmarkSnapshot(b *testing.B) {
	for _, model := range []string{"h100-80", "l4"} {
		b.Run(model, func(b *testing.B) {
			s := newSim(b, "--gpus=8", "--model="+model)
			src := s.source(nil)
			for b.Loop() {
				if _, err := src.Snapshot(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
			if err := src.Close(); err != nil {
				b.Fatal(err)
			}
		})
	}
}

func BenchmarkSnapshotOfMIGDevices(b *testing.B) {
	s := sevens(b, 8)
	src := s.source(nil)
	var node *gpu.Node
	for b.Loop() {
		var err error
		if node, err = src.Snapshot(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
	if n := len(node.GPUs[7].MIG.Devices); n != 7 {
		b.Errorf("GPU 7 has %d devices, want 7", n)
	}
	if err := src.Close(); err != nil {
		b.Fatal(err)
	}
}
