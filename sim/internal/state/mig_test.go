package state_test

import (
	"errors"
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"gotest.tools/v3/assert"

	"outrigger.dev/sim/internal/state"
)

func TestModeTakesEffectAsTheGenerationDoes(t *testing.T) {
	busy := state.Process{PID: 7, GPUInstance: state.WholeGPU, ComputeInstance: state.WholeGPU}
	tests := map[string]struct {
		model   string
		busy    bool
		want    state.Activation
		wantErr error
		after   state.MIG
	}{
		"Ampere waits for a reset":                {"a100-40", false, state.ModePending, nil, state.MIG{Pending: true}},
		"Ampere in use waits too":                 {"a30", true, state.ModePendingInUse, nil, state.MIG{Pending: true}},
		"Hopper changes at once":                  {"h100-80", false, state.ModeActive, nil, state.MIG{Enabled: true, Pending: true}},
		"Blackwell changes at once":               {"b200", false, state.ModeActive, nil, state.MIG{Enabled: true, Pending: true}},
		"Hopper in use does not change":           {"h200", true, "", state.ErrInUse, state.MIG{}},
		"a product that is never divided rejects": {"l4", false, "", state.ErrIndivisible, state.MIG{}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := create(t, state.NewSpec(test.model, 1))
			if test.busy {
				assert.NilError(t, s.PutProcess(0, busy))
			}
			got, err := s.SetMIGMode(0, true)
			if got != test.want || !errors.Is(err, test.wantErr) {
				t.Errorf("got %q, error %v, want %q and %v", got, err, test.want, test.wantErr)
			}
			if mig := s.Show().GPUs[0].MIG; mig != nil {
				if diff := cmp.Diff(test.after, *mig, cmpopts.EquateEmpty(), cmpopts.IgnoreUnexported(state.GPUInstance{})); diff != "" {
					t.Errorf("mode (-want +got):\n%s", diff)
				}
			}
		})
	}
}

func TestModePendingCanBeTakenBack(t *testing.T) {
	s := create(t, state.NewSpec("a100-40", 1))
	for _, on := range []bool{true, false} {
		if _, err := s.SetMIGMode(0, on); err != nil {
			t.Fatal(err)
		}
	}
	if got := readMIG(t, s); got.Enabled || got.Pending {
		t.Errorf("got %+v, want the mode neither on nor pending", got)
	}
}

// layout makes 3g with three 1c, 2g and 1g, and returns the whole.
func layout(t *testing.T, s *state.State, board state.Board) state.MIG {
	t.Helper()
	g3, c1 := find(t, board, "1c.3g.40gb")
	big := place(t, s, g3, 4)
	for range 3 {
		if _, err := s.CreateComputeInstance(0, big, c1, state.Anywhere); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"2g.20gb", "1g.10gb"} {
		profile, whole := find(t, board, name)
		if _, err := s.CreateComputeInstance(0, place(t, s, profile, state.Anywhere), whole, state.Anywhere); err != nil {
			t.Fatal(err)
		}
	}
	return readMIG(t, s)
}

func TestInstancesAreNumberedByTheirPlace(t *testing.T) {
	s, board := divided(t, "h100-80")
	got := layout(t, s, board)
	device := func(index, id, minor, start, size int, profile string) state.ComputeInstance {
		return state.ComputeInstance{ID: id, Index: index, Profile: profile, Start: start, Size: size, Minor: minor}
	}
	want := state.MIG{Enabled: true, Pending: true, GPUInstances: []state.GPUInstance{
		{ID: 2, Profile: "3g.40gb", Start: 4, Size: 4, Minor: 21, ComputeInstances: []state.ComputeInstance{
			device(0, 0, 22, 0, 1, "1c.3g.40gb"), device(1, 1, 23, 1, 1, "1c.3g.40gb"), device(2, 2, 24, 2, 1, "1c.3g.40gb"),
		}},
		{ID: 4, Profile: "2g.20gb", Start: 2, Size: 2, Minor: 39, ComputeInstances: []state.ComputeInstance{device(3, 0, 40, 0, 2, "2g.20gb")}},
		{ID: 8, Profile: "1g.10gb", Start: 1, Size: 1, Minor: 75, ComputeInstances: []state.ComputeInstance{device(4, 0, 76, 0, 1, "1g.10gb")}},
	}}
	opts := cmp.Options{
		cmpopts.IgnoreFields(state.ComputeInstance{}, "UUID"),
		cmpopts.IgnoreUnexported(state.GPUInstance{}, state.ComputeInstance{}),
	}
	if diff := cmp.Diff(want, got, opts); diff != "" {
		t.Errorf("instances (-want +got):\n%s", diff)
	}
	uuid := regexp.MustCompile(`^MIG-[0-9a-f]{8}-[0-9a-f]{4}-5[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
	for _, gi := range got.GPUInstances {
		for _, ci := range gi.ComputeInstances {
			if !uuid.MatchString(ci.UUID) {
				t.Errorf("got UUID %s, want one of version 5", ci.UUID)
			}
		}
	}
}

func TestTheDriverChoosesAPlace(t *testing.T) {
	tests := map[string]struct {
		model    string
		profiles []string
		want     []int
	}{
		"A30 from below":                    {"a30", []string{"1g.6gb", "1g.6gb", "2g.12gb"}, []int{0, 1, 2}},
		"A100 from above":                   {"a100-40", []string{"1g.5gb", "2g.10gb", "4g.20gb"}, []int{6, 4, 0}},
		"the largest first leaves most":     {"h100-80", []string{"3g.40gb", "2g.20gb", "1g.10gb", "1g.10gb"}, []int{4, 2, 1, 0}},
		"double memory lies at even places": {"h200", []string{"1g.18gb", "1g.35gb", "1g.35gb"}, []int{6, 4, 2}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s, board := divided(t, test.model)
			var got []int
			for _, name := range test.profiles {
				profile, _ := find(t, board, name)
				got = append(got, place(t, s, profile, state.Anywhere).Start)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("starts (-want +got):\n%s", diff)
			}
		})
	}
}

func TestMinorsOfAnotherGPU(t *testing.T) {
	s := create(t, state.NewSpec("h100-80", 7))
	if _, err := s.SetMIGMode(6, true); err != nil {
		t.Fatal(err)
	}
	board, err := s.Board(6)
	assert.NilError(t, err)
	profile, _ := find(t, board, "1g.10gb")
	gi, err := s.CreateGPUInstance(6, profile, 4)
	assert.NilError(t, err)
	// The line gpu6/gi11/access of a published mig-minors.
	if gi.ID != 11 || gi.Minor != 912 {
		t.Errorf("got GPU instance %d with minor %d, want 11 and 912", gi.ID, gi.Minor)
	}
}

// A MIG device made again in its place has its old UUID, and no other has.
func TestUUIDsFollowThePlace(t *testing.T) {
	uuids := func(s *state.State, board state.Board) []string {
		var list []string
		for _, gi := range layout(t, s, board).GPUInstances {
			for _, ci := range gi.ComputeInstances {
				list = append(list, ci.UUID)
			}
		}
		return list
	}
	s, board := divided(t, "h100-80")
	first := uuids(s, board)
	setMode(t, s, false)
	setMode(t, s, true)
	if diff := cmp.Diff(first, uuids(s, board)); diff != "" {
		t.Errorf("UUIDs after the same was made again (-first +again):\n%s", diff)
	}
	seen := map[string]bool{}
	other, _ := divided(t, "h100-80")
	for _, uuid := range append(uuids(other, board), first...) {
		if seen[uuid] {
			t.Errorf("UUID %s twice", uuid)
		}
		seen[uuid] = true
	}
}

// An event is there for each change, and only for changes.
func TestChangesRaiseEvents(t *testing.T) {
	s := create(t, state.NewSpec("h100-80", 1))
	board, err := s.Board(0)
	assert.NilError(t, err)
	profile, _ := find(t, board, "7g.80gb")
	var gi state.GPUInstance
	var ci state.ComputeInstance
	mode := func(on bool) func() error {
		return func() error { _, err := s.SetMIGMode(0, on); return err }
	}
	create := func() (err error) { gi, err = s.CreateGPUInstance(0, profile, state.Anywhere); return err }
	steps := []struct {
		name string
		do   func() error
		fail bool
		want uint64
	}{
		{"mode on", mode(true), false, 1},
		{"mode on again", mode(true), false, 0},
		{"GPU instance", create, false, 1},
		{"one too many", create, true, 0},
		{"compute instance", func() (err error) {
			ci, err = s.CreateComputeInstance(0, readMIG(t, s).GPUInstances[0], whole(profile), state.Anywhere)
			return err
		}, false, 1},
		{"GPU instance that is in use ends", func() error { return s.DestroyGPUInstance(0, readMIG(t, s).GPUInstances[0]) }, true, 0},
		{"compute instance ends", func() error { return s.DestroyComputeInstance(0, ci) }, false, 1},
		{"GPU instance ends", func() error { return s.DestroyGPUInstance(0, readMIG(t, s).GPUInstances[0]) }, false, 1},
		{"and ends again", func() error { return s.DestroyGPUInstance(0, gi) }, true, 0},
		{"recovery", func() error { return s.SetRecovery(0, "reset") }, false, 1},
		{"recovery again", func() error { return s.SetRecovery(0, "reset") }, false, 0},
		{"mode off", mode(false), false, 1},
	}
	for _, step := range steps {
		before := s.Show().Events
		if err := step.do(); (err != nil) != step.fail {
			t.Fatalf("%s: got error %v", step.name, err)
		}
		if got := s.Show().Events - before; got != step.want {
			t.Errorf("%s: got %d events, want %d", step.name, got, step.want)
		}
	}
}

func TestXIDsNeedTheInstanceTheyName(t *testing.T) {
	s, board := divided(t, "h100-80")
	layout(t, s, board)
	tests := map[string]struct {
		gi, ci uint32
		want   error
	}{
		"the whole GPU":            {state.NoInstance, state.NoInstance, nil},
		"a GPU instance":           {2, state.NoInstance, nil},
		"a compute instance":       {2, 1, nil},
		"no such GPU instance":     {3, state.NoInstance, state.ErrNoInstance},
		"no such compute instance": {4, 1, state.ErrNoInstance},
		"a part of nothing":        {state.NoInstance, 0, state.ErrNoInstance},
	}
	for name, test := range tests {
		if err := s.PostXID(0, 31, test.gi, test.ci); !errors.Is(err, test.want) {
			t.Errorf("%s: got error %v, want %v", name, err, test.want)
		}
	}
}
