package reader_test

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/gputest"
)

func TestMIGDevicesOfEachProduct(t *testing.T) {
	for model, profiles := range map[gputest.Model][]string{
		gputest.A30:    {"1g.6gb", "1g.6gb+me", "2g.12gb"},
		gputest.A100:   {"3g.20gb", "2g.10gb", "1g.5gb+me", "1g.5gb"},
		gputest.A10080: {"1g.20gb", "1g.10gb+me", "4g.40gb"},
		gputest.H100:   {"7g.80gb"},
		gputest.H200:   {"1g.18gb", "1g.35gb", "4g.71gb"},
		gputest.B200:   {"1g.23gb+me", "2g.45gb", "3g.90gb"},
	} {
		t.Run(string(model), func(t *testing.T) {
			s := newSim(t, "--gpus=1", "--model="+string(model))
			src := s.source(nil)
			defer closeSource(t, src)
			id := snapshot(t, src).GPUs[0].UUID
			s.run("mig mode", "0", "on")
			if snapshot(t, src).GPUs[0].MIG.Pending && !snapshot(t, src).GPUs[0].MIG.Enabled {
				s.run("reset", "0")
			}
			s.run(append([]string{"mig create", "0"}, profiles...)...)
			g := snapshot(t, src).GPUs[0]
			var got []string
			for _, d := range g.MIG.Devices {
				got = append(got, d.Profile.String())
			}
			slices.Sort(got)
			slices.Sort(profiles)
			if d := cmp.Diff(profiles, got); d != "" || g.Fault != nil {
				t.Errorf("profiles (-want +got), the GPU's fault is %v:\n%s", g.Fault, d)
			}
			want := s.mig(id, model)
			if d := cmp.Diff(want, g.MIG, cmpopts.IgnoreFields(gpu.MIGDevice{}, "Engines", "MemoryBytes")); d != "" {
				t.Errorf("MIG (-want +got):\n%s", d)
			}
		})
	}
}

func TestAPartOfAGPUInstance(t *testing.T) {
	s := newSim(t, "--gpus=1", "--model=a100-80")
	s.run("mig mode", "0", "on")
	s.run("reset", "0")
	s.run("mig create", "0", "2c.3g.40gb", "1c.3g.40gb")
	src := s.source(nil)
	defer closeSource(t, src)
	devices := snapshot(t, src).GPUs[0].MIG.Devices
	if len(devices) != 2 || devices[0].GPUInstance != devices[1].GPUInstance || devices[0].Placement != devices[1].Placement {
		t.Fatalf("devices = %+v, want two of one GPU instance", devices)
	}
	if got := devices[0].Profile.String() + " " + devices[1].Profile.String(); got != "2c.3g.40gb 1c.3g.40gb" {
		t.Errorf("profiles = %s", got)
	}
}

func TestMIGDevicesThatFailCostNobodyElse(t *testing.T) {
	for name, c := range map[string]struct {
		break1 func(s *sim)
		op     string
		reason string
	}{
		"without attributes": {func(s *sim) { s.run("set", "nvmlDeviceGetAttributes_v2.return=999") }, "nvmlDeviceGetAttributes_v2", "Unknown"},
		"without instance":   {func(s *sim) { s.run("set", "nvmlDeviceGetGpuInstanceId.return=3") }, "nvmlDeviceGetGpuInstanceId", "Not Supported"},
		"without permission": {func(s *sim) { s.run("set", "nvmlDeviceGetComputeInstanceId.return=4") }, "nvmlDeviceGetComputeInstanceId", "Insufficient Permissions"},
		"without a handle":   {func(s *sim) { s.run("set", "nvmlDeviceGetMigDeviceHandleByIndex.return=999") }, "nvmlDeviceGetMigDeviceHandleByIndex", "Unknown"},
		"without capabilities": {
			func(s *sim) { remove(s.t, filepath.Join(s.root, "proc/driver/nvidia-caps/mig-minors")) },
			"read MIG capabilities", "mig-minors",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSim(t, "--gpus=2", "--model=h100-80")
			s.run("mig mode", "1", "on")
			s.run("mig create", "1", "1g.10gb", "2g.20gb")
			c.break1(s)
			src := s.source(nil)
			defer closeSource(t, src)
			node := snapshot(t, src)
			for _, g := range node.GPUs {
				if g.Fault != nil {
					t.Errorf("GPU %d has the fault %v", g.Index, g.Fault)
				}
			}
			devices := node.GPUs[1].MIG.Devices
			if len(devices) < 2 {
				t.Fatalf("devices = %+v, want those that fail in the list", devices)
			}
			for _, d := range devices {
				if d.Fault == nil || d.Fault.Op != c.op || !strings.Contains(d.Fault.Reason, c.reason) {
					t.Errorf("device %d has the fault %+v, want %s: %s", d.Index, d.Fault, c.op, c.reason)
				}
			}
		})
	}
}

// A process that may not monitor instances knows profiles all the same.
func TestMIGDevicesForAProcessWithoutPrivileges(t *testing.T) {
	s := newSim(t, "--gpus=1", "--model=a100-40")
	s.run("mig mode", "0", "on")
	s.run("reset", "0")
	s.run("mig create", "0", "1g.5gb+me", "1g.5gb", "3g.20gb")
	s.run("set", "nvmlDeviceGetGpuInstanceById.return=4")
	src := s.source(nil)
	defer closeSource(t, src)
	var profiles []string
	for _, d := range snapshot(t, src).GPUs[0].MIG.Devices {
		profiles = append(profiles, d.Profile.String())
		if d.Fault != nil || d.Placement != (gpu.Placement{}) {
			t.Errorf("device = %+v, want one without placement that works", d)
		}
	}
	slices.Sort(profiles)
	if d := cmp.Diff([]string{"1g.5gb", "1g.5gb+me", "3g.20gb"}, profiles); d != "" {
		t.Errorf("profiles (-want +got):\n%s", d)
	}
}

// A GPU asks for a reset, gets it, and is as new: without its MIG devices.
func TestResetIsReported(t *testing.T) {
	s := newSim(t, "--gpus=2", "--model=h100-80")
	s.run("mig mode", "1", "on")
	s.run("mig create", "1", "7g.80gb")
	src := s.source(nil)
	defer closeSource(t, src)
	id := snapshot(t, src).GPUs[1].UUID
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var seen []gpu.EventKind
	asked, reset := false, false
	err := src.Watch(ctx, func(e gpu.Event) {
		g := snapshot(t, src).GPUs[1]
		switch {
		case len(seen) == 0:
			s.run("set", "1.recovery=reset")
		case !asked && e.Kind == gpu.EventTopologyChanged && g.Recovery == gpu.RecoveryReset:
			asked = true
			s.run("reset", "1")
		case e.Kind == gpu.EventMIGChanged && e.GPU != id:
			t.Errorf("event = %+v, want one of %s", e, id)
		case asked && g.Fault == nil && g.Recovery == gpu.RecoveryNone && len(g.MIG.Devices) == 0:
			reset = true
			cancel()
		}
		seen = append(seen, e.Kind)
	})
	if err != nil || !asked || !reset {
		t.Errorf("Watch() = %v after %v, asked for a reset: %v, reset: %v", err, seen, asked, reset)
	}
}

// A GPU instance without a compute instance takes its place on the GPU all the
// same. Only for such an instance does reading the instances cost calls.
func TestGPUInstancesWithoutComputeInstance(t *testing.T) {
	for name, c := range map[string]struct {
		set  string
		want func(in gpu.GPUInstance) gpu.GPUInstance
	}{
		"for a privileged process": {want: func(in gpu.GPUInstance) gpu.GPUInstance { return in }},
		"for a process that may not monitor instances": {
			set:  "nvmlDeviceGetGpuInstanceById.return=4",
			want: func(in gpu.GPUInstance) gpu.GPUInstance { return gpu.GPUInstance{ID: in.ID} },
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSim(t, "--gpus=2", "--model=h100-80")
			src := s.source(nil)
			defer closeSource(t, src)
			id := snapshot(t, src).GPUs[1].UUID
			s.partition(id, "3g.40gb", "1g.10gb")
			snapshot(t, src)
			s.calls()
			full := snapshot(t, src).GPUs[1].MIG
			before := s.calls()
			s.run("mig destroy", string(id), fmt.Sprintf("%d/0", full.GPUInstances[0].ID))
			if c.set != "" {
				s.run("set", c.set)
			}
			s.calls()
			g := snapshot(t, src).GPUs[1]
			after := s.calls()
			if len(full.Devices) != 2 || len(g.MIG.Devices) != 1 || g.Fault != nil {
				t.Fatalf("%d devices, then %d with the fault %v, want 2 and 1", len(full.Devices), len(g.MIG.Devices), g.Fault)
			}
			if len(g.MIG.GPUInstances) != 2 || g.MIG.GPUInstances[0] != c.want(full.GPUInstances[0]) {
				t.Errorf("GPU instances are %+v, want both, the first as in %+v", g.MIG.GPUInstances, full.GPUInstances)
			}
			for _, symbol := range []string{"nvmlDeviceGetGpuInstanceById", "nvmlDeviceGetGpuInstanceProfileInfo"} {
				if after[symbol] != before[symbol] {
					t.Errorf("%s was called %d times, before %d times", symbol, after[symbol], before[symbol])
				}
			}
		})
	}
}
