package reader_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"testing"

	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/gputest"
)

// shownMIG is what gpu-sim reports of the MIG devices of a GPU.
type shownMIG struct {
	UUID         gpu.UUID `json:"uuid"`
	Enabled      bool     `json:"enabled"`
	Pending      bool     `json:"pending"`
	GPUInstances []struct {
		ID               uint32      `json:"id"`
		Profile          gpu.Profile `json:"profile"`
		Start            int         `json:"start"`
		Size             int         `json:"size"`
		Minor            int         `json:"minor"`
		ComputeInstances []struct {
			ID      uint32      `json:"id"`
			Index   int         `json:"index"`
			UUID    gpu.UUID    `json:"uuid"`
			Profile gpu.Profile `json:"profile"`
			Minor   int         `json:"minor"`
		} `json:"computeInstances"`
	} `json:"gpuInstances"`
}

// partition gives a GPU these MIG devices and no others.
func (s *sim) partition(id gpu.UUID, profiles ...string) {
	s.t.Helper()
	s.run("mig mode", string(id), "on")
	s.run("mig destroy", string(id), "all")
	if len(profiles) > 0 {
		s.run(append([]string{"mig create", string(id)}, profiles...)...)
	}
}

// mig returns the MIG state of a GPU as the simulator knows it. What the devices
// have follows from their profiles, as gputest knows them of the model.
func (s *sim) mig(id gpu.UUID, model gputest.Model) *gpu.MIG {
	s.t.Helper()
	var in []shownMIG
	if err := json.Unmarshal(s.run("mig list", "--json", string(id)), &in); err != nil || len(in) != 1 {
		s.t.Fatalf("gpu-sim mig list %s: %d GPUs, %v", id, len(in), err)
	}
	out := &gpu.MIG{Enabled: in[0].Enabled, Pending: in[0].Pending}
	for _, gi := range in[0].GPUInstances {
		out.GPUInstances = append(out.GPUInstances, gpu.GPUInstance{
			ID: gi.ID, Profile: gi.Profile, Placement: gpu.Placement{Start: gi.Start, Size: gi.Size},
		})
		for _, ci := range gi.ComputeInstances {
			like := gputest.Partition(gputest.Node(model, 1), 0, ci.Profile.String()).GPUs[0].MIG.Devices[0]
			out.Devices = append(out.Devices, gpu.MIGDevice{
				UUID: ci.UUID, Index: ci.Index, GPUInstance: gi.ID, ComputeInstance: ci.ID, Profile: ci.Profile,
				Placement:   gpu.Placement{Start: gi.Start, Size: gi.Size},
				MemoryBytes: like.MemoryBytes, Engines: like.Engines,
				GPUInstanceCap: gi.Minor, ComputeInstanceCap: ci.Minor,
			})
		}
	}
	return out
}

// xidOf posts an XID of an instance.
func (s *sim) xidOf(id gpu.UUID, gi, ci uint32, xid uint64) {
	s.t.Helper()
	instance := strconv.FormatUint(uint64(gi), 10)
	if ci != gpu.NoInstance {
		instance = fmt.Sprintf("%d/%d", gi, ci)
	}
	s.run("xid", "--instance="+instance, string(id), strconv.FormatUint(xid, 10))
}

// sevens is a node of which all GPUs have seven MIG devices.
func sevens(t testing.TB, gpus int) *sim {
	t.Helper()
	s := newSim(t, "--gpus="+strconv.Itoa(gpus), "--model=h100-80")
	s.run("mig mode", "all", "on")
	s.run(append([]string{"mig create", "all"}, slices.Repeat([]string{"1g.10gb"}, 7)...)...)
	return s
}
