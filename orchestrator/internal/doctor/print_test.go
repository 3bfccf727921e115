package doctor_test

import (
	"testing"

	"gotest.tools/v3/golden"

	"outrigger.dev/orchestrator/internal/doctor"
	"outrigger.dev/orchestrator/internal/facts"
	"outrigger.dev/pkg/cause"
)

// TestOutput has the output for people. docs/kubectl-outrigger.md shows a part of it.
func TestOutput(t *testing.T) {
	c := healthy("gpu-1", "gpu-2", "gpu-3")
	c.unready("gpu-1", cause.DriverNotFound)
	c.notReady(facts.DriverLoader, "gpu-1")
	c.notReady(facts.DevicePlugin, "gpu-1")
	c.answers(facts.DriverLoader, "gpu-1", "", "driver-loader: probe the agent: readyz answers 503: "+
		cause.New(cause.KernelHeadersMissing, "kernel 6.12.0-13-amd64", "no folder /usr/src/linux-headers-6.12.0-13-amd64, and no repository is configured").Line(), "probe", "readyz")
	c.user("train", "", map[string]int64{gpu: 1}).Status.Conditions[0].Message = "0/3 nodes are available: 3 Insufficient nvidia.com/gpu."
	c.user("etl", "gpu-2", map[string]int64{gpu: 8})
	c.user("notebook", "gpu-3", map[string]int64{gpu: 8})
	c.Unseen = []facts.Unseen{{What: "ResourceQuotas of the namespace team", Why: `list resourcequotas of the namespace team: resourcequotas is forbidden: User "ada" cannot list resource "resourcequotas" in API group "" in the namespace "team"`}}
	for name, target := range map[string]facts.Target{"node": {Node: "gpu-1"}, "pod": {Namespace: "team", Pod: "train"}, "cluster": {}} {
		t.Run(name, func(t *testing.T) { golden.Assert(t, text(doctor.Diagnose(c.Facts, target)), name+".golden") })
	}
}
