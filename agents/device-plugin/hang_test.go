package main

import (
	"testing"

	"outrigger.dev/pkg/agent/agenttest"
	"outrigger.dev/pkg/gpu/simtest"
)

// A process with a call of NVML that does not return ends in time, and says why.
func TestEndsWhileNVMLHangs(t *testing.T) {
	n := simtest.New(t, "--gpus", "2")
	n.Run("set", "latency=1h")
	p := start(t, n)
	p.Said("msg=serving")
	agenttest.Poll(t, "a call of NVML", n.Called)
	if body := p.Get("/healthz"); body != "nvml: ok\nok\n" {
		t.Errorf("/healthz says %q of a call that has just begun", body)
	}
	p.Dies("nvmlInit_v2 has not answered")
	if got := files(t, p.path("sockets")); len(got) != 1 {
		t.Errorf("after the end the folder of sockets has %v", got)
	}
}

// A wait for an event that cannot be interrupted is not waited for.
func TestEndsWhileNVMLWaits(t *testing.T) {
	n := simtest.New(t, "--gpus", "2")
	p := start(t, n)
	p.wait(2, 0)
	p.Said("ready: devices")
	// In this order: the wait that begins between the two is counted, and ends by itself.
	n.Run("calls", "--reset")
	n.Run("set", "latency=1h")
	agenttest.Poll(t, "a wait for an event", n.Called)
	p.Stop()
	if got := files(t, p.path("sockets")); len(got) != 1 {
		t.Errorf("after the end the folder of sockets has %v", got)
	}
}
