package apply

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/mig"
	"outrigger.dev/pkg/procowner"
)

// A container holds a change back if the change takes its GPU or MIG device. It stands for the processes
// of its pod.
func TestHold(t *testing.T) {
	instance := func(id uint32, start int) mig.Instance {
		return mig.Instance{
			ID: id, Profile: gpu.Profile{ComputeSlices: 2, GPUSlices: 2, GB: 20}, Placement: gpu.Placement{Start: start, Size: 2},
			Compute: []mig.Compute{{ID: 0, Slices: 1, Placement: gpu.Placement{Size: 1}}, {ID: 1, Slices: 1, Placement: gpu.Placement{Start: 1, Size: 1}}},
		}
	}
	of := func(name string, gi, ci uint32) mig.Holder {
		return mig.Holder{Process: procowner.Process{Pod: procowner.Pod{Namespace: "default", Name: name}}, GPUInstance: gi, ComputeInstance: ci}
	}
	first, second := instance(3, 0), instance(5, 2)
	half := second
	half.Compute = second.Compute[:1]
	held := []mig.Holder{of("whole", gpu.NoInstance, gpu.NoInstance), of("first", 3, 0), of("second-0", 5, 0), of("second-1", 5, 1)}
	g := mig.GPU{State: mig.State{Enabled: true, Pending: true, Layout: mig.Layout{first, second}}}
	target := func(l ...mig.Instance) mig.State { return mig.State{Enabled: true, Pending: true, Layout: l} }
	for name, tc := range map[string]struct {
		change Change
		want   []mig.Holder
	}{
		"nothing goes":                        {change: Change{Target: g.State}},
		"a GPU instance goes":                 {change: Change{Target: target(second)}, want: held[1:2]},
		"a compute instance goes":             {change: Change{Target: target(first, half)}, want: held[3:]},
		"the mode changes":                    {change: Change{Target: mig.State{}}, want: held},
		"the GPU is reset":                    {change: Change{Target: g.State, Reset: true}, want: held},
		"a pending change of the mode is off": {change: Change{Target: g.State, Mode: true}},
	} {
		c := tc.change
		c.GPU = g
		c.addHolders(held)
		if d := cmp.Diff(append([]mig.Holder{}, tc.want...), append([]mig.Holder{}, c.Holders...)); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
	train := of("first", 3, 0)
	train.PID = 7
	other := of("other", 3, 0)
	other.PID = 8
	host := mig.Holder{Process: procowner.Process{PID: 9}, GPUInstance: 3}
	c := Change{GPU: g, Target: target(second), Holders: []mig.Holder{train, other, host}}
	c.addHolders(held)
	if d := cmp.Diff([]mig.Holder{held[1], other, host}, c.Holders); d != "" {
		t.Errorf("a container and its process (-want +got):\n%s", d)
	}
}
