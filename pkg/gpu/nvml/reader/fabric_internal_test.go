package reader

import (
	"testing"

	gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/google/go-cmp/cmp"

	"outrigger.dev/pkg/gpu"
)

// oldGPU is a GPU of a driver that has only the first form of the call.
type oldGPU struct {
	gonvml.Device
	info  gonvml.GpuFabricInfo
	ret   gonvml.Return
	asked int
}

func (g *oldGPU) GetGpuFabricInfo() (gonvml.GpuFabricInfo, gonvml.Return) {
	g.asked++
	return g.info, g.ret
}

func TestFabricOfDriversThatLackTheCalls(t *testing.T) {
	completed := gonvml.GpuFabricInfo{State: gonvml.GPU_FABRIC_STATE_COMPLETED, CliqueId: 3, ClusterUuid: [16]uint8{0: 0xab, 15: 1}}
	joined := &gpu.Fabric{
		State: gpu.FabricCompleted, Status: gpu.FabricSuccess, ClusterUUID: "ab000000-0000-0000-0000-000000000001", CliqueID: 3,
	}
	const versioned, plain = "nvmlDeviceGetGpuFabricInfoV", "nvmlDeviceGetGpuFabricInfo"
	for name, c := range map[string]struct {
		lacks []string
		gpu   oldGPU
		want  *gpu.Fabric
		asked int
		fails bool
	}{
		"both of them":             {[]string{versioned, plain}, oldGPU{info: completed}, nil, 0, false},
		"the newer one":            {[]string{versioned}, oldGPU{info: completed}, joined, 1, false},
		"and do not report it":     {[]string{versioned}, oldGPU{ret: gonvml.ERROR_UNKNOWN}, nil, 1, true},
		"and lose the GPU":         {[]string{versioned}, oldGPU{ret: gonvml.ERROR_GPU_IS_LOST}, nil, 1, true},
		"and report a newer state": {[]string{versioned}, oldGPU{info: gonvml.GpuFabricInfo{State: 4}}, nil, 1, false},
		"and wait, with noise in the rest": {
			[]string{versioned},
			oldGPU{info: gonvml.GpuFabricInfo{State: gonvml.GPU_FABRIC_STATE_IN_PROGRESS, Status: 999, CliqueId: 3, ClusterUuid: completed.ClusterUuid}},
			&gpu.Fabric{State: gpu.FabricInProgress}, 1, false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			v, h := viewOfGPU(t, &c.gpu, c.lacks...)
			got, err := v.fabric(0, h)
			if d := cmp.Diff(c.want, got); d != "" || c.gpu.asked != c.asked || (err != nil) != c.fails {
				t.Errorf("asked %d times, want %d; fabric(), error %v (-want +got):\n%s", c.gpu.asked, c.asked, err, d)
			}
		})
	}
}

func TestFabricsThatMayChange(t *testing.T) {
	board := &gpu.Fabric{State: gpu.FabricCompleted, Status: gpu.FabricSuccess}
	failed := &gpu.Fabric{State: gpu.FabricCompleted, Status: "Unknown Error"}
	shared := &gpu.Fabric{State: gpu.FabricCompleted, Status: gpu.FabricSuccess, ClusterUUID: "d1c4be3f-6f0a-4b1e-9d0c-3a5f0c5b7e21"}
	waiting := &gpu.Fabric{State: gpu.FabricInProgress}
	for name, c := range map[string]struct {
		seen []*gpu.Fabric
		// joins: it is asked soon, unsettled: in its turn.
		joins, unsettled bool
		changes          int
	}{
		"not seen yet":                        {nil, false, false, 0},
		"of a GPU without":                    {[]*gpu.Fabric{nil, nil}, false, false, 0},
		"not joined yet":                      {[]*gpu.Fabric{waiting, {State: gpu.FabricInProgress}}, true, true, 0},
		"joined, of one board":                {[]*gpu.Fabric{waiting, board}, false, false, 1},
		"joined, with other nodes":            {[]*gpu.Fabric{shared}, false, true, 0},
		"joined, with other nodes after that": {[]*gpu.Fabric{board, shared}, false, true, 1},
		"failed":                              {[]*gpu.Fabric{waiting, failed}, false, true, 1},
		"not reported any more":               {[]*gpu.Fabric{board, nil}, false, true, 1},
		"reported again":                      {[]*gpu.Fabric{board, nil, board}, false, false, 2},
	} {
		t.Run(name, func(t *testing.T) {
			var f fabrics
			for _, seen := range c.seen {
				f.note(3, seen)
			}
			if joins, unsettled := f.joins(3), f.unsettled(3); joins != c.joins || unsettled != c.unsettled || f.changed() != c.changes {
				t.Errorf("joins %v, unsettled %v, %d changes; want %v, %v, %d", joins, unsettled, f.changed(), c.joins, c.unsettled, c.changes)
			}
		})
	}
}

// Each watch reports a change once, whichever reader saw it.
func TestEachWatchReportsAnotherFabric(t *testing.T) {
	g := &oldGPU{info: gonvml.GpuFabricInfo{State: gonvml.GPU_FABRIC_STATE_NOT_STARTED}}
	v, h := viewOfGPU(t, g, "nvmlDeviceGetGpuFabricInfoV")
	var reported [2]int
	var watches []*watch
	for i := range reported {
		watches = append(watches, &watch{
			view: v, gpus: []*watched{{handle: h}},
			deliver: func(e gpu.Event) {
				if e.Kind == gpu.EventTopologyChanged {
					reported[i]++
				}
			},
		})
	}
	probe := func(want int) {
		t.Helper()
		for range 2 {
			for _, w := range watches {
				w.checkFabrics()
			}
		}
		if reported != [2]int{want, want} {
			t.Errorf("the watches reported %d times, want %d each", reported, want)
		}
	}
	probe(0) // no snapshot has shown the GPU
	_, _ = v.fabric(0, h)
	probe(0)
	g.info.State = gonvml.GPU_FABRIC_STATE_IN_PROGRESS
	probe(1)
	g.info.State = gonvml.GPU_FABRIC_STATE_COMPLETED
	_, _ = v.fabric(0, h) // a snapshot sees it first
	probe(2)
	asked := g.asked
	probe(2)
	watches[0].gpus[0].silent, watches[1].gpus[0].silent = true, true
	g.info.State = gonvml.GPU_FABRIC_STATE_NOT_STARTED
	_, _ = v.fabric(0, h)
	probe(3)
	if g.asked != asked+1 {
		t.Errorf("a GPU that has joined, or is silent, was asked %d times by watches", g.asked-asked-1)
	}
}
