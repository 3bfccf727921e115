package state_test

import (
	"testing"

	"gotest.tools/v3/assert"

	"outrigger.dev/sim/internal/state"
)

func TestParseFault(t *testing.T) {
	for name, c := range map[string]struct {
		symbol, code, call string
		want               string
	}{
		"a code":               {"nvmlDeviceGetName", "19", "3", "call 3 of nvmlDeviceGetName answers 19"},
		"any symbol":           {"any", "999", "1", "call 1 of any answers 999"},
		"the end of a process": {"any", "kill", "12", "call 12 of any kills its process"},
		"no code":              {"any", "0", "1", ""},
		"a code that is none":  {"any", "1000", "1", ""},
		"no call":              {"any", "19", "first", ""},
		"an unknown symbol":    {"nvmlFoo", "19", "1", ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := state.ParseFault(c.symbol, c.code, c.call)
			if (err == nil) != (c.want != "") || err == nil && got.String() != c.want {
				t.Errorf("ParseFault() = %q, %v, want %q", got, err, c.want)
			}
		})
	}
}

func TestFaultIsShown(t *testing.T) {
	s := create(t, state.NewSpec("l4", 1))
	want := state.Fault{Symbol: "any", Kill: true, Call: 7}
	assert.NilError(t, s.SetFault(want))
	if got := s.Show().Fault; got == nil || *got != want {
		t.Errorf("Show().Fault = %v, want %v", got, want)
	}
	assert.NilError(t, s.SetFault(state.Fault{Symbol: "any"}))
	if got := s.Show().Fault; got != nil {
		t.Errorf("Show().Fault = %v after its end", got)
	}
}
