package main

import (
	"testing"

	"outrigger.dev/pkg/agent/agenttest"
	"outrigger.dev/pkg/gpu/simtest"
)

// A process that NVML does not let go of ends in time, and says why.
func TestEndsWhileNVMLHangs(t *testing.T) {
	for name, atStart := range map[string]bool{"from the start": true, "while events are waited for": false} {
		t.Run(name, func(t *testing.T) {
			n := simtest.New(t, "--gpus", "2")
			if atStart {
				n.Run("set", "latency=1h")
			}
			p := start(t, n)
			want := "nvmlInit_v2 has not answered"
			if atStart {
				p.Said("msg=serving")
			} else {
				p.wait(2, 0)
				p.Said("ready: devices")
				n.Run("set", "latency=1h")
				n.Run("calls", "--reset")
				want = "nvmlEventSetWait_v2 has not answered"
			}
			agenttest.Poll(t, "a call of NVML", n.Called)
			if body := p.Get("/healthz"); body != "nvml: ok\nok\n" {
				t.Errorf("/healthz says %q of a call that has just begun", body)
			}
			p.Dies(want)
			if got := files(t, p.path("sockets")); len(got) != 1 {
				t.Errorf("after the end the folder of sockets has %v", got)
			}
		})
	}
}
