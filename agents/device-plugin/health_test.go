package main

import (
	"testing"

	"outrigger.dev/pkg/gpu/simtest"
	"outrigger.dev/pkg/health"
	"outrigger.dev/pkg/health/healthtest"
)

// Each class of faults has the same verdict in all agents, also after a restart.
func TestFaultClasses(t *testing.T) {
	for name, c := range healthtest.Cases() {
		t.Run(name, func(t *testing.T) {
			n := simtest.New(t, "--gpus=2", healthtest.Model)
			p := start(t, n)
			p.wait(2, 0)
			c.Apply(n)
			if !c.Event() {
				p.Hangup(1)
			}
			if c.Event() && c.Severity == health.Ignored {
				p.Said("xid ignored")
			}
			unhealthy := 0
			if c.Severity == health.Failure {
				unhealthy = 1
			}
			p.wait(2-unhealthy, unhealthy)
			p.Stop()
			if !c.Lasting() {
				return
			}
			p.run(n)
			p.wait(2-unhealthy, unhealthy)
		})
	}
}
