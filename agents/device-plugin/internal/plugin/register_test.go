package plugin_test

import (
	"net"
	"os"
	"testing"

	"gotest.tools/v3/assert"

	"outrigger.dev/pkg/agent/agenttest"
)

// once wants one registration, and one stream of the kubelet.
func (r *rig) once(t *testing.T) {
	t.Helper()
	if n := len(r.kubelet.Registrations()); n != 1 {
		t.Errorf("%d registrations, want 1", n)
	}
	if n := r.kubelet.Streams(resourceName); n != 1 {
		t.Errorf("%d streams, want 1", n)
	}
}

// dialable waits until something listens at the path.
func dialable(t *testing.T, path string) {
	t.Helper()
	agenttest.Poll(t, "a listener at "+path, func() bool {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "unix", path)
		return err == nil && conn.Close() == nil
	})
}

// A kubelet that lets go of the plugin, and does not restart, takes it again.
func TestRegistersAgainWhenTheKubeletHasLetGo(t *testing.T) {
	r := newRig(t, 1, nil)
	r.startKubelet(t)
	r.run(t)
	r.marker.wait(t, true)
	for i := range 2 {
		r.kubelet.Disconnect(resourceName)
		r.marker.wait(t, false)
		if _, err := r.kubelet.WaitRegistrations(agenttest.Deadline(t), i+2); err != nil {
			t.Fatal(err)
		}
		r.healths(t, ok)
		r.marker.wait(t, true)
	}
	if n := r.kubelet.Streams(resourceName); n != 1 {
		t.Errorf("%d streams, want 1", n)
	}
}

// The kubelet's stream is of no use any more once another plugin has
// registered: when that one has gone, a new stream takes its place.
func TestReturnsAfterAnotherPluginHasTakenTheSocket(t *testing.T) {
	r := newRig(t, 1, nil)
	r.startKubelet(t)
	r.run(t)
	r.marker.wait(t, true)
	path := r.otherPlugin(t)
	r.marker.wait(t, false)
	assert.NilError(t, os.Remove(path))
	r.sockets <- struct{}{}
	if _, err := r.kubelet.WaitRegistrations(agenttest.Deadline(t), 2); err != nil {
		t.Fatal(err)
	}
	r.healths(t, ok)
	r.marker.wait(t, true)
	if n := r.kubelet.Streams(resourceName); n != 1 {
		t.Errorf("%d streams, want 1", n)
	}
}
