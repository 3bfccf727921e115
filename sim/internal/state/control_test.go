package state_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"gotest.tools/v3/assert"

	"outrigger.dev/sim/internal/model"
	"outrigger.dev/sim/internal/state"
)

func TestSetField(t *testing.T) {
	tests := map[string]struct {
		name, value string
		want        string // of the error; empty: none
		show        func(state.GPU) any
		shown       any
	}{
		"temperature":        {"temperature", "90", "", func(g state.GPU) any { return g.Temperature }, uint32(90)},
		"no NUMA node":       {"numa-node", "-1", "", func(g state.GPU) any { return g.NUMANode }, -1},
		"links that are up":  {"nvlinks", "5", "", func(g state.GPU) any { return g.NVLinks }, 5},
		"memory":             {"memory-used", "4096", "", func(g state.GPU) any { return g.MemoryUsed }, uint64(4096)},
		"recovery":           {"recovery", "drain-and-reset", "", func(g state.GPU) any { return g.Recovery }, state.Recovery("drain-and-reset")},
		"rows to remap":      {"remap-pending", "1", "", func(g state.GPU) any { return g.RemapPending }, true},
		"limits of clocks":   {"clock-limits", "board,power-brake", "", func(g state.GPU) any { return g.ClockLimits }, "power-brake,board"},
		"no limit of clocks": {"clock-limits", "none", "", func(g state.GPU) any { return g.ClockLimits }, ""},
		"errors of a link":   {"nvlink-ecc-errors", "11:4", "", func(g state.GPU) any { return g.Values["nvlink-ecc-errors"] }, uint64(4)},
		"unknown limit":      {"clock-limits", "board,none", "want none, or of setting, power-cap", nil, nil},
		"errors of no link":  {"nvlink-ecc-errors", "12:4", "want a number, or LINK:NUMBER with a link from 0 to 11", nil, nil},
		"too busy":           {"sm-active", "101", "want a number from 0 to 100", nil, nil},
		"unknown recovery":   {"recovery", "prayer", "want one of none, reset, reboot, drain-p2p, drain-and-reset", nil, nil},
		"too many links":     {"nvlinks", "13", "want a number from 0 to 12", nil, nil},
		"too much memory":    {"memory-used", "42949672960", "want a number from 0 to", nil, nil},
		"not a number":       {"temperature", "hot", `to "hot": want a number from 0 to 200`, nil, nil},
		"a field that isn't": {"colour", "1", "unknown field; want one of bar1-used, clock-graphics", nil, nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := create(t, state.NewSpec("a100-40", 1))
			err := s.SetField(0, test.name, test.value)
			if test.want != "" {
				assert.ErrorContains(t, err, test.want)
				return
			}
			assert.NilError(t, err)
			if diff := cmp.Diff(test.shown, test.show(s.Show().GPUs[0])); diff != "" {
				t.Errorf("value (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSetFabric(t *testing.T) {
	const cluster = "d1c4be3f-6f0a-4b1e-9d0c-3a5f0c5b7e21"
	for name, test := range map[string]struct {
		model, value string
		want         string // of the error; empty: none
		shown        string
	}{
		"registration under way":     {"h100-80", "in-progress", "", "in-progress"},
		"not begun":                  {"h200", "not-started", "", "not-started"},
		"switched off":               {"b200", "not-supported", "", "not-supported"},
		"a fabric of the node":       {"h100-80", "completed", "", "completed"},
		"a fabric of several nodes":  {"h100-80", "completed:" + cluster + ".32766", "", "completed:" + cluster + ".32766"},
		"a cluster in capitals":      {"h100-80", "completed:" + strings.ToUpper(cluster) + ".1", "", "completed:" + cluster + ".1"},
		"a cluster with a name":      {"gb200", "completed:rack-1.2", "", "completed:62510c48-e9e4-7fc1-9c64-22c6c272e211.2"},
		"completed with an error":    {"h100-80", "failed:999", "", "failed:999"},
		"failed without error":       {"h100-80", "failed:0", "want not-supported, not-started", ""},
		"no state":                   {"h100-80", "ready", `to "ready": want not-supported`, ""},
		"a cluster before it joined": {"h100-80", "in-progress:" + cluster + ".1", "completed:CLUSTER.CLIQUE", ""},
		"a cluster without clique":   {"h100-80", "completed:" + cluster, "completed:CLUSTER.CLIQUE", ""},
		"a clique of 33 bits":        {"h100-80", "completed:" + cluster + ".4294967296", "completed:CLUSTER.CLIQUE", ""},
		"a product without fabric":   {"a100-40", "completed", "a100-40 has none", ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := create(t, state.NewSpec(test.model, 2))
			before := s.Show()
			err := s.SetField(1, "fabric", test.value)
			if test.want != "" {
				assert.ErrorContains(t, err, test.want)
				if diff := cmp.Diff(before, s.Show()); diff != "" {
					t.Errorf("the node changed (-before +after):\n%s", diff)
				}
				return
			}
			assert.NilError(t, err)
			before.GPUs[1].Fabric = test.shown
			if diff := cmp.Diff(before, s.Show()); diff != "" {
				t.Errorf("node (-want +got):\n%s", diff)
			}
		})
	}
}

func TestEmptySlotsAreRejected(t *testing.T) {
	s := create(t, state.NewSpec("l4", 1))
	for name, do := range map[string]func(state.Slot) error{
		"PostXID":   func(i state.Slot) error { return s.PostXID(i, 79, state.NoInstance, state.NoInstance) },
		"Lose":      func(i state.Slot) error { return s.Lose(i, state.LostCalls) },
		"Heal":      s.Heal,
		"Unplug":    s.Unplug,
		"SetField":  func(i state.Slot) error { return s.SetField(i, "power", "1") },
		"SetFabric": func(i state.Slot) error { return s.SetFabric(i, "completed") },
	} {
		for _, slot := range []state.Slot{-1, 1, 16} {
			if err := do(slot); !errors.Is(err, state.ErrNoGPU) {
				t.Errorf("%s of slot %d: got error %v, want no such GPU", name, slot, err)
			}
		}
	}
	if got := s.Show().Events; got != 0 {
		t.Errorf("got %d events, want none", got)
	}
}

func TestPlugFillsTheLowestSlotWithANewGPU(t *testing.T) {
	s := create(t, state.NewSpec("l4", 16))
	before := s.Show().GPUs[3].UUID
	if _, err := s.Plug(state.GPUSpec{Model: "l4"}); err == nil || !strings.Contains(err.Error(), "unplug one first") {
		t.Errorf("got error %v from a full machine, want one that says what to do", err)
	}
	assert.NilError(t, errors.Join(s.Unplug(9), s.Unplug(3)))
	slot, err := s.Plug(state.GPUSpec{Model: "l4"})
	if err != nil || slot != 3 {
		t.Fatalf("got slot %d, error %v, want 3", slot, err)
	}
	if after := s.Show().GPUs[3].UUID; after == before {
		t.Errorf("got UUID %s again, want that of another GPU", after)
	}
}

func TestLoseAndHeal(t *testing.T) {
	s := create(t, state.NewSpec("l4", 1))
	for _, how := range []state.Lost{state.LostHandle, state.LostCalls, ""} {
		var err error
		if how == "" {
			err = s.Heal(0)
		} else {
			err = s.Lose(0, how)
		}
		if got := s.Show().GPUs[0].Lost; err != nil || got != how {
			t.Errorf("got lost %q, error %v, want %q", got, err, how)
		}
	}
	if err := s.Lose(0, "somehow"); err == nil {
		t.Error("got no error for an unknown way to lose a GPU")
	}
}

func TestDriverLatencyAndForcedAnswers(t *testing.T) {
	s := create(t, state.NewSpec("l4", 1))
	err := errors.Join(s.SetDriver(false), s.SetDriver(false), s.SetLatency(10*time.Microsecond), s.ForceReturn("nvmlInit_v2", 9))
	assert.NilError(t, err)
	got := s.Show()
	if got.Driver.Loaded || got.Latency != 10*time.Microsecond || got.Events != 1 {
		t.Errorf("got %+v, want the driver off, 10µs, and one event", got)
	}
	if diff := cmp.Diff(map[string]int{"nvmlInit_v2": 9}, got.Forced); diff != "" {
		t.Errorf("forced (-want +got):\n%s", diff)
	}
	for name, err := range map[string]error{
		"an unknown symbol":  s.ForceReturn("nvmlInitt", 9),
		"a negative answer":  s.ForceReturn("nvmlInit_v2", -1),
		"a negative latency": s.SetLatency(-1),
	} {
		if err == nil {
			t.Errorf("got no error for %s", name)
		}
	}
}

func TestModelsAreWhole(t *testing.T) {
	for _, name := range model.Names() {
		gpus := create(t, state.NewSpec(name, state.MaxGPUs)).Show().GPUs // no two places are the same
		if g := gpus[0]; g.Name == "" || g.Model != name || g.PCIID&0xffff != 0x10de {
			t.Errorf("model %s: lacks a name, or is not NVIDIA's", name)
		}
	}
}
