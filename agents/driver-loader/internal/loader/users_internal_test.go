package loader

import (
	"testing"

	"gotest.tools/v3/assert"

	"outrigger.dev/pkg/holders"
	"outrigger.dev/pkg/procowner"
)

// TestAnAgentThatClosesTheDriverIsNoUser lets an agent close the driver and its lease after it was found, or
// open both again before the second look.
func TestAnAgentThatClosesTheDriverIsNoUser(t *testing.T) {
	agent := holders.Holder{Process: procowner.Process{PID: 1, Command: "device-plugin"}}
	program := holders.Holder{Process: procowner.Process{PID: 2, Command: "python"}}
	for name, tc := range map[string]struct {
		looks [][]holders.Holder
		// shares says whether the agent has the lease open after each look.
		shares []bool
		want   []holders.Holder
	}{
		"an agent":                        {[][]holders.Holder{{agent}}, []bool{true}, nil},
		"a program":                       {[][]holders.Holder{{program}, {program}}, []bool{false, false}, []holders.Holder{program}},
		"an agent that closed the driver": {[][]holders.Holder{{agent}, nil}, []bool{false, false}, nil},
		"an agent that opened it again":   {[][]holders.Holder{{agent, program}, {agent, program}}, []bool{false, true}, []holders.Holder{program}},
		"an agent that opened it late":    {[][]holders.Holder{{program}, {agent, program}}, []bool{false, false}, []holders.Holder{program}},
	} {
		t.Run(name, func(t *testing.T) {
			look := -1
			got, err := usersOf(func() ([]holders.Holder, error) {
				look++
				return tc.looks[look], nil
			}, func(h holders.Holder) bool { return h.PID == agent.PID && tc.shares[look] })
			assert.NilError(t, err)
			assert.DeepEqual(t, append([]holders.Holder{}, got...), append([]holders.Holder{}, tc.want...))
		})
	}
}
