//go:build e2e

package e2e_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// flaw is a fault that doctor finds.
type flaw struct {
	name       string
	begin, end func(t *testing.T)
	// code and subject identify the finding of the fault. An empty subject stands for any.
	code, subject string
}

// in reports whether a finding is about the fault.
func (f flaw) in(code, subject string) bool {
	return code == f.code && strings.Contains(subject, f.subject)
}

// wrongImage returns the fault that an agent's image does not exist.
func wrongImage(key, agent string) flaw {
	patch := func(version string) func(*testing.T) {
		return func(t *testing.T) { patchPolicy(t, fmt.Sprintf(`{"spec":{"%s":{"version":%s}}}`, key, version)) }
	}
	return flaw{name: "a wrong image of " + agent, begin: patch(`"26.11.0-missing"`), end: patch("null"), code: "ImagePullBackOff", subject: agent}
}

// faultPairs has first flaws, each with faults that are later in the chain or beside it.
func faultPairs() []struct {
	first flaw
	later []flaw
} {
	each := func(command string) func(*testing.T) {
		return func(t *testing.T) {
			for i := range gpus {
				simulate(t, command, fmt.Sprint(i))
			}
		}
	}
	cordon := flaw{
		"a cordoned node", func(t *testing.T) { kubectl(t, "cordon", gpuNode()) }, func(t *testing.T) { kubectl(t, "uncordon", gpuNode()) },
		"NodeCordoned", gpuNode(),
	}
	// The stage of the device plugin waits for the toolkit, so a wrong image of the plugin would not be applied.
	toolkit, exporter, mig := wrongImage("toolkit", "container-toolkit"), wrongImage("dcgmExporter", "dcgm-exporter"), wrongImage("migManager", "mig-manager")
	return []struct {
		first flaw
		later []flaw
	}{
		{flaw{"no driver", func(t *testing.T) { simulate(t, "set", "driver=off") }, func(t *testing.T) { simulate(t, "set", "driver=on") }, "DriverNotFound", gpuNode()}, []flaw{toolkit, exporter, mig, cordon}},
		{toolkit, []flaw{exporter, cordon}},
		{flaw{"all GPUs lost", each("lose"), each("heal"), "AllGPUsFaulty", gpuNode()}, []flaw{exporter, mig, toolkit, cordon}},
	}
}

// theFirstCauseComesFirst breaks two things at once: doctor names both, and the one that is first in the chain first.
func theFirstCauseComesFirst(t *testing.T) {
	for _, pair := range faultPairs() {
		calm(t)
		healed := t.Run(pair.first.name, func(t *testing.T) {
			pair.first.begin(t)
			defer pair.first.end(t)
			for _, later := range pair.later {
				t.Run(later.name, func(t *testing.T) {
					later.begin(t)
					defer later.end(t)
					eventually(t, "doctor names both faults", func() bool {
						d := diagnose(t)
						at := func(f flaw) int {
							return slices.IndexFunc(d.Findings, func(found finding) bool { return f.in(found.Code, found.Subject+strings.Join(found.Examples, " ")) })
						}
						return at(pair.first) == 0 && at(later) > 0
					})
				})
			}
		})
		if !healed {
			describeOrchestrator(t)
			t.Fatal("the next faults need a cluster that works")
		}
	}
	calm(t)
	allocatable(t, gpus, limit)
}
