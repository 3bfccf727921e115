package main

import (
	"os"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"outrigger.dev/pkg/agent/agenttest"
	"outrigger.dev/pkg/gpu/simtest"
)

// What happens to a plugin over months leaves nothing behind in it, nor in the
// kubelet.
func TestEndures(t *testing.T) {
	n := simtest.New(t, "--gpus", "2")
	p := start(t, n)
	p.wait(2, 0)
	p.Said("ready: devices")
	// The first time of each makes what stays.
	p.Hangup(1)
	p.removeSocket()
	p.restartKubelet(1)
	files, routines := p.Gauge("process_open_fds"), p.Gauge("go_goroutines")

	for i := range 50 {
		p.Hangup(i + 2)
	}
	for range 50 {
		p.removeSocket()
	}
	if got := len(p.kubelet.Registrations()); got != 2 {
		t.Errorf("%d registrations with two kubelets, want 2", got)
	}
	if got := p.kubelet.Streams(resource); got != 1 {
		t.Errorf("%d streams are open, want 1", got)
	}
	for i := range 20 {
		p.restartKubelet(i + 2)
	}
	p.wait(2, 0)
	if got := p.kubelet.Streams(resource); got != 1 {
		t.Errorf("%d streams are open after 20 kubelets, want 1", got)
	}
	p.Falls("process_open_fds", files)
	p.Falls("go_goroutines", routines)
	if log := p.Log.String(); strings.Contains(log, "level=WARN") {
		t.Error("the log has a warning, although all is as it should be")
	}
}

// GPUs that become sick and well again, and containers that come and go, leave
// nothing behind. "make soak" does it for longer, and checks the memory.
func TestEnduresSickness(t *testing.T) {
	n := simtest.New(t, "--gpus", "4")
	p := start(t, n)
	devices := p.wait(4, 0)
	p.Said("ready: devices")
	sickness := func() {
		n.Run("set", "0.recovery=reset", "2.recovery=reset", "3.recovery=reset")
		p.wait(1, 3)
		n.Run("xid", "2", "95")
		n.Run("set", "0.recovery=none", "2.recovery=none", "3.recovery=none")
		p.wait(4, 0)
	}
	sickness()
	files, routines := p.Gauge("process_open_fds"), p.Gauge("go_goroutines")
	for i := range 30 {
		sickness()
		for range 20 {
			if _, err := p.kubelet.Allocate(agenttest.Deadline(t), resource, devices[i%4].GetID()); err != nil {
				t.Fatal(err)
			}
		}
	}
	p.Falls("process_open_fds", files)
	p.Falls("go_goroutines", routines)
}

func (p *process) removeSocket() {
	p.t.Helper()
	path := p.path("sockets/nvidia-gpu.sock")
	assert.NilError(p.t, os.Remove(path))
	agenttest.Poll(p.t, "the socket", func() bool {
		_, err := os.Lstat(path)
		return err == nil
	})
}

// restartKubelet starts the n-th kubelet after the first.
func (p *process) restartKubelet(n int) {
	p.t.Helper()
	assert.NilError(p.t, p.kubelet.Restart())
	if _, err := p.kubelet.WaitRegistrations(agenttest.Deadline(p.t), n+1); err != nil {
		p.t.Fatal(err)
	}
	p.wait(2, 0)
}
