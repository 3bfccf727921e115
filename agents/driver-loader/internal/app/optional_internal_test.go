package app

import (
	"testing"

	"gotest.tools/v3/assert"

	"outrigger.dev/agents/driver-loader/internal/loader"
	"outrigger.dev/agents/driver-loader/internal/upgrade"
	"outrigger.dev/pkg/cause"
	"outrigger.dev/pkg/nodestate"
)

func TestOptionalCondition(t *testing.T) {
	why := cause.New(cause.RDMAUnavailable, "module nvidia_peermem", "it was built without headers")
	peermem := loader.OptionalModule{Module: "nvidia_peermem", Cause: &why}
	gdrdrv, waits := loader.OptionalModule{Module: "gdrdrv", Loaded: true}, loader.OptionalModule{Module: "nvidia_fs"}
	condition := func(status, reason, message string) *nodestate.Condition {
		return &nodestate.Condition{Type: upgrade.OptionalCondition, Status: status, Reason: reason, Message: message}
	}
	for name, tc := range map[string]struct {
		step  loader.Step
		want  *nodestate.Condition
		known bool
	}{
		"the driver does not work":   {loader.Step{Kind: loader.Wait, Optional: []loader.OptionalModule{gdrdrv}}, nil, false},
		"no module is selected":      {loader.Step{Kind: loader.Done}, nil, true},
		"a module has no hardware":   {loader.Step{Kind: loader.Done, Optional: []loader.OptionalModule{waits}}, nil, true},
		"all modules are loaded":     {loader.Step{Kind: loader.Done, Optional: []loader.OptionalModule{gdrdrv}}, condition("True", "Loaded", "gdrdrv"), true},
		"a module cannot be loaded":  {loader.Step{Kind: loader.Done, Optional: []loader.OptionalModule{gdrdrv, peermem}}, condition("False", "RDMAUnavailable", why.Line()), true},
		"a module is not loaded yet": {loader.Step{Kind: loader.Done, Optional: []loader.OptionalModule{gdrdrv, waits}}, condition("True", "Loaded", "gdrdrv"), true},
	} {
		t.Run(name, func(t *testing.T) {
			got, known := optionalCondition(tc.step)
			assert.DeepEqual(t, got, tc.want)
			assert.Equal(t, known, tc.known)
		})
	}
}
