package server_test

import (
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"outrigger.dev/agents/device-plugin/internal/server"
	"outrigger.dev/pkg/agent/agenttest"
)

// left waits until Run has returned by itself.
func (r *rig) left(t *testing.T) {
	t.Helper()
	select {
	case err := <-r.ended:
		assert.NilError(t, err, "Run")
	case <-time.After(5 * time.Minute):
		t.Fatal("Run has not returned a minute after Leave")
	}
	r.ended = nil
}

func TestLeavesWhenTheKubeletKnows(t *testing.T) {
	r := newRig(t)
	r.server.Publish(gpus(2, 1), options())
	r.run(t)
	r.status(t, server.Status{Serving: true, Registered: true, Listed: true})
	r.healths(t, ok, ok)
	start := time.Now()
	r.server.Withdraw()
	r.server.Withdraw()
	assert.NilError(t, r.kubelet.WaitWithdrawn(agenttest.Deadline(t), resourceName))
	if took := time.Since(start); took > time.Second {
		t.Errorf("it took %v to leave a kubelet that listens", took)
	}
	r.left(t)
	if r.server.Publish(gpus(2, 1), options()) {
		t.Error("a server that has left takes devices")
	}
}

func TestLeavesWithoutAKubelet(t *testing.T) {
	r := newRig(t)
	r.kubelet.Stop()
	r.server.Publish(gpus(1, 1), options())
	r.run(t)
	r.server.Withdraw()
	r.left(t)
}

// A kubelet that took the registration and does not come is not waited for.
func TestLeavesAKubeletThatHasLetGo(t *testing.T) {
	r := newRig(t)
	r.server.Publish(gpus(1, 1), options())
	r.run(t)
	r.status(t, server.Status{Serving: true, Registered: true, Listed: true})
	r.kubelet.Disconnect(resourceName)
	r.status(t, server.Status{Serving: true, Registered: true})
	r.server.Withdraw()
	r.left(t)
}

// A resource that comes back before the server has left stays where it is.
func TestStaysForAResourceThatComesBack(t *testing.T) {
	r := newRig(t)
	r.server.Publish(gpus(1, 1), options())
	r.server.Withdraw() // nobody knows of it: there is all the time to come back
	if !r.server.Publish(gpus(2, 1), options()) {
		t.Fatal("a server that has not left takes no devices")
	}
	r.run(t)
	r.status(t, server.Status{Serving: true, Registered: true, Listed: true})
	r.healths(t, ok, ok)
}
