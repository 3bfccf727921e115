package reader_test

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"gotest.tools/v3/assert"

	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/gputest"
)

// total adds calls up.
func total(calls map[string]int) (n int) {
	for _, times := range calls {
		n += times
	}
	return n
}

func checkCalls(t *testing.T, calls, want map[string]int, limit int) {
	t.Helper()
	for symbol, n := range want {
		if calls[symbol] != n {
			t.Errorf("%s was called %d times, want %d", symbol, calls[symbol], n)
		}
	}
	if n := total(calls); n > limit {
		t.Errorf("%d calls, want at most %d: %v", n, limit, calls)
	}
}

// The number of NVML calls is what carries over to hardware.
func TestSnapshotMakesFewCalls(t *testing.T) {
	const gpus, links = 8, 18
	for name, c := range map[string]struct {
		set   []string
		first map[string]int
		links map[string]int
		// The limits for a first snapshot, another one, and the links.
		firstLimit, nextLimit, linksLimit int
	}{
		"of a new driver": {
			first:      map[string]int{"nvmlDeviceGetFieldValues": gpus, "nvmlDeviceGetRemappedRows": 0},
			links:      map[string]int{"nvmlDeviceGetFieldValues": gpus, "nvmlDeviceGetNvLinkState": 0},
			firstLimit: 102, nextLimit: 32, linksLimit: 32,
		},
		"of a driver without field values": {
			set:        []string{"nvmlDeviceGetFieldValues.return=3"},
			first:      map[string]int{"nvmlDeviceGetFieldValues": gpus, "nvmlDeviceGetRemappedRows": gpus},
			links:      map[string]int{"nvmlDeviceGetFieldValues": gpus, "nvmlDeviceGetNvLinkState": gpus * (links + 1)},
			firstLimit: 118, nextLimit: 48, linksLimit: 184,
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSim(t, "--gpus=8", "--model=h100-80")
			for _, set := range c.set {
				s.run("set", set)
			}
			s.calls()
			src := s.source(nil)
			defer closeSource(t, src)
			node := snapshot(t, src)
			maps.Copy(c.first, map[string]int{
				"nvmlInit_v2":                         1,
				"nvmlDeviceGetCount_v2":               1,
				"nvmlDeviceGetHandleByIndex_v2":       gpus,
				"nvmlDeviceGetUUID":                   gpus,
				"nvmlDeviceGetMemoryInfo":             gpus,
				"nvmlDeviceGetCudaComputeCapability":  gpus,
				"nvmlSystemGetCudaDriverVersion_v2":   1,
				"nvmlDeviceGetGpuFabricInfoV":         gpus,
				"nvmlDeviceGetGpuFabricInfo":          0,
				"nvmlDeviceGetMaxMigDeviceCount":      0,
				"nvmlDeviceGetMigDeviceHandleByIndex": 0,
				"nvmlDeviceGetGpuInstanceProfileInfo": 0,
				"nvmlDeviceGetTopologyCommonAncestor": 0,
				"nvmlDeviceGetNvLinkRemoteDeviceType": 0,
			})
			checkCalls(t, s.calls(), c.first, c.firstLimit)
			snapshot(t, src)
			checkCalls(t, s.calls(), map[string]int{
				"nvmlDeviceGetCount_v2": 0, "nvmlDeviceGetUUID": 0, "nvmlDeviceGetName": 0,
				"nvmlDeviceGetMemoryInfo": gpus, "nvmlDeviceGetMigMode": gpus,
			}, c.nextLimit)
			all, err := src.Links(t.Context(), node)
			if err != nil || len(all) != gpus*(gpus-1)/2 {
				t.Errorf("the node has %d links, error %v", len(all), err)
			}
			maps.Copy(c.links, map[string]int{
				"nvmlDeviceGetTopologyCommonAncestor": 16, // of 28 pairs, on two sockets
				"nvmlDeviceGetNvLinkRemotePciInfo_v2": 0,
				"nvmlDeviceGetNvLinkRemoteDeviceType": gpus,
			})
			checkCalls(t, s.calls(), c.links, c.linksLimit)
		})
	}
}

// Only what the last snapshot lacks is asked for again, and all of it is there once the
// driver answers.
func TestCompleteMakesOnlyTheCallsThatFailed(t *testing.T) {
	const gpus, denied, fine = 8, 4, 0
	for symbol, more := range map[string]map[string]int{
		"nvmlDeviceGetBrand":                {},
		"nvmlDeviceGetName":                 {},
		"nvmlDeviceGetMemoryInfo":           {},
		"nvmlDeviceGetGpuFabricInfoV":       {},
		"nvmlDeviceGetFieldValues":          {"nvmlDeviceGetRemappedRows": gpus, "nvmlDeviceGetTotalEccErrors": gpus},
		"nvmlSystemGetCudaDriverVersion_v2": {},
		"nvmlDeviceGetUUID":                 {},
	} {
		t.Run(symbol, func(t *testing.T) {
			s := newSim(t, "--gpus=8", "--model=h100-80")
			s.run("set", fmt.Sprintf("%s.return=%d", symbol, denied))
			src := s.source(nil)
			defer closeSource(t, src)
			if node := snapshot(t, src); node.Complete() {
				t.Fatalf("the node is complete: %+v", node)
			}
			complete := func() *gpu.Node {
				t.Helper()
				s.calls()
				node, err := src.Complete(t.Context())
				assert.NilError(t, err)
				return node
			}
			complete()
			calls := s.calls()
			delete(calls, "nvmlErrorString") // answered from a table
			expected := map[string]int{symbol: gpus}
			if strings.HasPrefix(symbol, "nvmlSystem") {
				expected[symbol] = 1
			}
			maps.Copy(expected, more)
			if d := cmp.Diff(expected, calls); d != "" {
				t.Errorf("calls (-want +got):\n%s", d)
			}
			s.run("set", fmt.Sprintf("%s.return=%d", symbol, fine))
			if node := complete(); !node.Complete() {
				t.Errorf("the node is not complete: %+v", node)
			}
			got, want := complete(), snapshot(t, src)
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("Complete() differs from a snapshot (-want +got):\n%s", d)
			}
		})
	}
}

// What an agent calls until it knows the node: NVIDIA's device plugin calls 158 times for
// 8 GPUs, its feature discovery 135 times.
func TestAStartMakesFewCalls(t *testing.T) {
	for name, c := range map[string]struct {
		set   string
		limit int
	}{
		"of a driver that reports changes of MIG devices": {"nvmlDeviceGetSupportedEventTypes.return=0", 119},
		"of a driver without events":                      {"nvmlDeviceGetSupportedEventTypes.return=3", 128},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSim(t, "--gpus=8", "--model=h100-80")
			s.run("set", c.set)
			s.calls()
			src := s.source(nil)
			defer closeSource(t, src)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			assert.NilError(t, src.Watch(ctx, func(gpu.Event) {
				snapshot(t, src)
				checkCalls(t, s.calls(), map[string]int{
					"nvmlDeviceGetHandleByIndex_v2": 8, "nvmlDeviceGetUUID": 8, "nvmlDeviceGetMinorNumber": 8,
				}, c.limit)
				cancel()
			}))
		})
	}
}

// NVIDIA's device plugin calls 12 times a minute, whether the driver reports changes of
// MIG devices or not. A watch waits twice a minute at rest.
func TestAWatchAtRestMakesFewCalls(t *testing.T) {
	const perMinute, slack = 12, 6
	for name, set := range map[string]string{
		"with MIG events": "nvmlDeviceGetSupportedEventTypes.return=0",
		"without events":  "nvmlDeviceGetSupportedEventTypes.return=3",
	} {
		t.Run(name, func(t *testing.T) {
			s := sevens(t, 8)
			s.run("set", set)
			src := s.source(nil)
			defer closeSource(t, src)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			begun, ended := make(chan struct{}, 16), make(chan error, 1)
			go func() { ended <- src.Watch(ctx, func(gpu.Event) { begun <- struct{}{} }) }()
			<-begun
			snapshot(t, src)
			s.inFlight("nvmlDeviceGetMemoryInfo", "nvmlDeviceGetMigMode", "nvmlDeviceGetFieldValues") // the first probe
			s.calls()
			<-time.After(2 * rest) // a minute, as the times of tests have it
			if n := total(s.calls()); n > perMinute+slack {
				t.Errorf("%d calls in a minute at rest, want %d", n, perMinute)
			}
			cancel()
			if err := <-ended; err != nil || len(begun) > 0 {
				t.Errorf("Watch() = %v, and %d events", err, len(begun))
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
	checkCalls(t, s.calls(), map[string]int{
		"nvmlDeviceGetMaxMigDeviceCount":      gpus,
		"nvmlDeviceGetMigDeviceHandleByIndex": devices,
		"nvmlDeviceGetUUID":                   devices,
		"nvmlDeviceGetGpuInstanceId":          devices,
		"nvmlDeviceGetComputeInstanceId":      devices,
		"nvmlDeviceGetAttributes_v2":          devices,
		"nvmlDeviceGetGpuInstanceById":        devices, // each has an instance of its own
		"nvmlGpuInstanceGetInfo":              devices,
		"nvmlDeviceGetMemoryInfo":             gpus,
		"nvmlDeviceGetGpuInstanceProfileInfo": 0,
	}, 432)
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
