package mig_test

import (
	"testing"

	"gotest.tools/v3/assert"

	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/mig"
)

func profile(t *testing.T, text string) gpu.Profile {
	t.Helper()
	p, err := gpu.ParseProfile(text)
	assert.NilError(t, err)
	return p
}

func TestLayoutEqual(t *testing.T) {
	whole := func(id uint32, start int) mig.Instance {
		return mig.Instance{
			ID: id, Profile: profile(t, "1g.10gb"), Placement: gpu.Placement{Start: start, Size: 1},
			Compute: []mig.Compute{{Slices: 1, Placement: gpu.Placement{Size: 1}}},
		}
	}
	a, b := mig.Layout{whole(7, 0), whole(8, 1)}, mig.Layout{whole(12, 1), whole(11, 0)}
	if a.Equal(b) {
		t.Error("layouts in different orders are equal before they are sorted")
	}
	b.Sort()
	if !a.Equal(b) {
		t.Error("layouts whose instances have other numbers are not equal")
	}
	b[1].Compute = nil
	if a.Equal(b) || !a[1].Same(b[1]) {
		t.Error("a GPU instance without its compute instance is the same one, but not equal")
	}
	if got := a.Devices(); len(got) != 1 || got[profile(t, "1g.10gb")] != 2 {
		t.Errorf("Devices() = %v, want 2 of 1g.10gb", got)
	}
}

func TestStepText(t *testing.T) {
	step := mig.Step{
		Op: mig.CreateCompute, Profile: profile(t, "3g.40gb"), Placement: gpu.Placement{Start: 4, Size: 4},
		Compute: mig.Compute{Slices: 1, Placement: gpu.Placement{Start: 2, Size: 1}},
	}
	if got, want := step.String(), "create compute instance 1c.3g.40gb at 2:1 of 3g.40gb at 4:4"; got != want {
		t.Errorf("String() = %q, want %q", got, want)
	}
	step.Op, step.Compute = mig.DestroyInstance, mig.Compute{}
	if got, want := step.String(), "destroy GPU instance 3g.40gb at 4:4"; got != want {
		t.Errorf("String() = %q, want %q", got, want)
	}
}

func TestBoard(t *testing.T) {
	board := mig.Board{Profiles: []mig.Profile{{Name: profile(t, "3g.40gb"), ID: 9, Compute: []mig.ComputeProfile{{Slices: 1}, {Slices: 3, Number: 2}}}}}
	p, ok := board.Profile(profile(t, "1c.3g.40gb"))
	if !ok || p.ID != 9 {
		t.Errorf("Profile(1c.3g.40gb) = %+v, %t", p, ok)
	}
	if _, ok := board.Profile(profile(t, "3g.20gb")); ok {
		t.Error("found a profile that the board does not have")
	}
	if c, ok := p.Of(3); !ok || c.Number != 2 {
		t.Errorf("Of(3) = %+v, %t", c, ok)
	}
	if _, ok := p.Of(2); ok {
		t.Error("found a compute instance profile that the board does not have")
	}
}

func TestBeside(t *testing.T) {
	at := func(start, size int) gpu.Placement { return gpu.Placement{Start: start, Size: size} }
	board := mig.Board{MemorySlices: 8, ComputeSlices: 7, Profiles: []mig.Profile{
		{Name: profile(t, "2g.20gb"), Max: 3, Placements: []gpu.Placement{at(0, 2), at(2, 2), at(4, 2)}},
		{Name: profile(t, "7g.80gb"), Max: 1, Placements: []gpu.Placement{at(0, 8)}},
	}}
	rest := board.Beside([]mig.Unlisted{{ID: 5, ProfileID: 99, Placement: at(3, 1), ComputeSlices: 1}})
	two, whole := rest.Profiles[0], rest.Profiles[1]
	if rest.ComputeSlices != 6 || len(two.Placements) != 2 || two.Placements[1] != at(4, 2) || two.Max != 2 || len(whole.Placements) != 0 || whole.Max != 0 {
		t.Errorf("Beside() = %+v", rest)
	}
	if len(board.Profiles[0].Placements) != 3 || board.Profiles[0].Max != 3 || board.Profiles[0].Placements[1] != at(2, 2) {
		t.Errorf("the board has changed: %+v", board)
	}
}

func TestFits(t *testing.T) {
	at := func(name string, start, size int) mig.Instance {
		return mig.Instance{Profile: profile(t, name), Placement: gpu.Placement{Start: start, Size: size}}
	}
	b := mig.Board{ComputeSlices: 4, Profiles: []mig.Profile{
		{Name: profile(t, "1g.10gb"), Max: 2, Placements: []gpu.Placement{{Start: 0, Size: 1}, {Start: 1, Size: 1}, {Start: 2, Size: 1}}},
		{Name: profile(t, "2g.20gb"), Max: 3, Placements: []gpu.Placement{{Start: 0, Size: 2}, {Start: 2, Size: 2}, {Start: 4, Size: 2}}},
	}}
	for name, tc := range map[string]struct {
		layout mig.Layout
		want   string
	}{
		"nothing":            {},
		"all":                {layout: mig.Layout{at("1g.10gb", 0, 1), at("1g.10gb", 1, 1), at("2g.20gb", 2, 2)}},
		"another profile":    {mig.Layout{at("3g.40gb", 0, 4)}, "a GPU instance 3g.40gb cannot be at 0:4"},
		"another place":      {mig.Layout{at("2g.20gb", 1, 2)}, "a GPU instance 2g.20gb cannot be at 1:2"},
		"an overlap":         {mig.Layout{at("2g.20gb", 0, 2), at("1g.10gb", 1, 1)}, "the GPU instances 2g.20gb at 0 and 1g.10gb at 1 overlap"},
		"too many of one":    {mig.Layout{at("1g.10gb", 0, 1), at("1g.10gb", 1, 1), at("1g.10gb", 2, 1)}, "the GPU can have at most 2 of 1g.10gb, not 3"},
		"too many for a GPU": {mig.Layout{at("2g.20gb", 0, 2), at("2g.20gb", 2, 2), at("2g.20gb", 4, 2)}, "its GPU instances have 6 compute slices, and the GPU has 4"},
	} {
		got := ""
		if err := b.Fits(tc.layout); err != nil {
			got = err.Error()
		}
		if got != tc.want {
			t.Errorf("%s: Fits() = %q, want %q", name, got, tc.want)
		}
	}
}

// A MIG device is named by NVML's numbers of its instances.
func TestDeviceOfALayout(t *testing.T) {
	l := mig.Layout{{ID: 3, Profile: profile(t, "2g.20gb"), Compute: []mig.Compute{{ID: 1, Slices: 1}, {ID: 2, Slices: 2}}}}
	for want, id := range map[string][2]uint32{"1c.2g.20gb": {3, 1}, "2g.20gb": {3, 2}, "": {4, 1}} {
		if got := l.Device(id[0], id[1]); got != want {
			t.Errorf("Device(%v) = %q, want %q", id, got, want)
		}
	}
	if got := l.Device(3, gpu.NoInstance); got != "2g.20gb" {
		t.Errorf("Device() of a process without a compute instance = %q, want the GPU instance", got)
	}
	if l.Undivided() || !(mig.Layout{{}}).Undivided() {
		t.Error("Undivided() is not whether a GPU instance has no compute instance")
	}
}
