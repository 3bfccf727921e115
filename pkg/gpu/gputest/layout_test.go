package gputest_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gotest.tools/v3/assert"

	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/gputest"
)

func TestPartitionsAreValid(t *testing.T) {
	for name, c := range map[string]struct {
		model    gputest.Model
		profiles []string
	}{
		"nothing":                         {gputest.A100, nil},
		"seven of the smallest":           {gputest.A100, slices.Repeat([]string{"1g.5gb"}, 7)},
		"all sizes, the smallest first":   {gputest.A10080, []string{"1g.10gb", "1g.10gb", "2g.20gb", "3g.40gb"}},
		"one with media engines":          {gputest.H100, []string{"1g.10gb+me", "1g.10gb", "4g.40gb"}},
		"with twice the memory":           {gputest.H200, []string{"1g.35gb", "2g.35gb", "3g.71gb"}},
		"all of it":                       {gputest.B200, []string{"7g.180gb"}},
		"four of an A30":                  {gputest.A30, []string{"1g.6gb", "1g.6gb", "2g.12gb+me"}},
		"an instance that is divided":     {gputest.A100, []string{"1c.3g.20gb", "2c.3g.20gb", "1c.3g.20gb"}},
		"a divided one beside a full one": {gputest.B200, []string{"3g.90gb", "1c.3g.90gb"}},
	} {
		t.Run(name, func(t *testing.T) {
			node := gputest.Partition(gputest.Node(c.model, 2), 1, c.profiles...)
			got, err := gpu.Decode(encode(t, node))
			assert.NilError(t, err)
			if d := cmp.Diff(node, got); d != "" {
				t.Errorf("through JSON (-want +got):\n%s", d)
			}
			var shown []string
			for _, d := range got.GPUs[1].MIG.Devices {
				shown = append(shown, d.Profile.String())
			}
			slices.Sort(shown)
			slices.Sort(c.profiles)
			if d := cmp.Diff(c.profiles, shown); d != "" {
				t.Errorf("profiles (-want +got):\n%s", d)
			}
			if node.GPUs[0].MIG.Enabled {
				t.Error("the other GPU has MIG on")
			}
		})
	}
}

func TestPartitionRejectsWhatNoGPUHas(t *testing.T) {
	for name, c := range map[string]struct {
		model    gputest.Model
		index    int
		profiles []string
	}{
		"no such GPU":             {gputest.A100, 7, nil},
		"a GPU without MIG":       {gputest.L4, 0, nil},
		"no profile":              {gputest.A100, 0, []string{"large"}},
		"a profile of other GPUs": {gputest.A100, 0, []string{"1g.6gb"}},
		"more than there is":      {gputest.A100, 0, []string{"4g.20gb", "4g.20gb"}},
		"eight slices":            {gputest.A100, 0, slices.Repeat([]string{"1g.5gb"}, 8)},
		"the media engines twice": {gputest.A30, 0, []string{"1g.6gb+me", "1g.6gb+me"}},
		"three halves":            {gputest.H100, 0, []string{"2c.3g.40gb", "2c.3g.40gb", "2c.3g.40gb"}},
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("Partition() returned")
				}
			}()
			gputest.Partition(gputest.Node(c.model, 1), c.index, c.profiles...)
		})
	}
}

func TestFakeReportsChanges(t *testing.T) {
	node := gputest.Node(gputest.A100, 2)
	id := node.GPUs[1].UUID
	for name, c := range map[string]struct {
		change func(f *gputest.Fake)
		want   []gpu.Event
	}{
		"other MIG devices":     {func(f *gputest.Fake) { f.Partition(id, "1g.5gb") }, []gpu.Event{gpu.GPUEvent(gpu.EventMIGChanged, id)}},
		"a node with MIG":       {func(f *gputest.Fake) { f.SetNode(gputest.Partition(gputest.Node(gputest.A100, 2), 1)) }, []gpu.Event{gpu.GPUEvent(gpu.EventMIGChanged, id)}},
		"a node with more GPUs": {func(f *gputest.Fake) { f.SetNode(gputest.Node(gputest.A100, 3)) }, []gpu.Event{gpu.NodeEvent(gpu.EventTopologyChanged)}},
		"the same node":         {func(f *gputest.Fake) { f.SetNode(gputest.Node(gputest.A100, 2)) }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			fake := gputest.New(node)
			var got []gpu.Event
			err := fake.Watch(t.Context(), func(e gpu.Event) {
				if got == nil {
					got = []gpu.Event{}
					c.change(fake)
					fake.SetDriver(false) // ends the watch, behind what is queued
					return
				}
				got = append(got, e)
			})
			if err == nil {
				t.Error("Watch() = nil")
			}
			if d := cmp.Diff(append([]gpu.Event{}, c.want...), got); d != "" {
				t.Errorf("events (-want +got):\n%s", d)
			}
		})
	}
}
