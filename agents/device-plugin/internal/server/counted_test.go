package server_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"gotest.tools/v3/assert"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"outrigger.dev/agents/device-plugin/internal/server"
	"outrigger.dev/pkg/agent/agenttest"
)

var listed = server.Status{Serving: true, Registered: true, Listed: true}

// again runs another server in place of the one that has ended.
func (r *rig) again(t *testing.T) {
	t.Helper()
	r.server, r.ended = server.New(r.cfg), make(chan error, 1)
	r.server.Publish(gpus(2, 1), options())
	r.run(t)
}

// registerTwice registers the socket of the running server, as a second plugin of the
// resource would. The kubelet refuses that.
func (r *rig) registerTwice(t *testing.T) {
	t.Helper()
	conn, err := grpc.NewClient("unix://"+r.kubelet.Socket(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	assert.NilError(t, err)
	defer conn.Close()
	_, err = pluginapi.NewRegistrationClient(conn).Register(agenttest.Deadline(t), &pluginapi.RegisterRequest{
		Version: pluginapi.Version, Endpoint: server.SocketName(resourceName), ResourceName: resourceName,
	})
	assert.ErrorContains(t, err, "already connected")
}

// A resource that comes back is not registered before the kubelet has cleaned up.
func TestAResourceThatComesBackIsNotRefused(t *testing.T) {
	r := newRig(t)
	r.kubelet.OnePerSocket(100 * time.Millisecond)
	r.server.Publish(gpus(1, 1), options())
	r.run(t)
	r.status(t, listed)
	r.server.Withdraw()
	r.left(t)
	r.again(t)
	r.status(t, listed)
	r.healths(t, ok, ok)
	r.end(t)
	if diff := cmp.Diff([]error{nil, nil}, r.recorder.registered); diff != "" {
		t.Errorf("registrations (-want +got):\n%s", diff)
	}
}

// A kubelet that has forgotten to disconnect a plugin that has ended refuses its socket
// until it restarts. It takes another one.
func TestAKubeletThatCountsAnEarlierConnectionTakesAnotherSocket(t *testing.T) {
	r := newRig(t)
	r.kubelet.OnePerSocket(0)
	r.server.Publish(gpus(1, 1), options())
	r.run(t)
	r.status(t, listed)
	r.registerTwice(t)
	r.end(t)

	r.again(t)
	r.status(t, listed)
	r.healths(t, ok, ok)
	if _, err := r.kubelet.Allocate(agenttest.Deadline(t), resourceName, string(gpus(2, 1).Devices[1].UUID)); err != nil {
		t.Error(err)
	}
	if !strings.Contains(r.log.String(), "registering at another one") {
		t.Errorf("the log does not say why the socket has another name:\n%s", r.log)
	}
	r.end(t)
	left, err := filepath.Glob(filepath.Join(filepath.Dir(r.kubelet.Socket()), "nvidia-*"))
	if err != nil || len(left) != 0 {
		t.Errorf("sockets are left behind: %v (error %v)", left, err)
	}

	// The next one is refused at the first name and free to take the second.
	r.again(t)
	r.status(t, listed)
}
