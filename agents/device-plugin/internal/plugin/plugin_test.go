package plugin_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"gotest.tools/v3/assert"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"outrigger.dev/agents/device-plugin/internal/inventory"
	"outrigger.dev/pkg/agent/agenttest"
	"outrigger.dev/pkg/gpu"
)

const resourceName = "nvidia.com/gpu"

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestAdvertisesRegistersAndAnswers(t *testing.T) {
	r := newRig(t, 2, nil)
	r.startKubelet(t)
	r.run(t)
	r.marker.wait(t, true)
	assert.NilError(t, r.plugin.Ready(), "Ready")
	u := r.healths(t, ok, ok)
	for i, d := range u.Devices {
		if d.GetID() != id(i) {
			t.Errorf("device %d is %s, want %s", i, d.GetID(), id(i))
		}
		if nodes := d.GetTopology().GetNodes(); len(nodes) != 1 || nodes[0].GetID() != 0 {
			t.Errorf("device %d has NUMA nodes %v, want node 0", i, nodes)
		}
	}
	reg := r.kubelet.Registrations()[0].Request
	if reg.GetEndpoint() != "nvidia-gpu.sock" || reg.GetVersion() != "v1beta1" || !reg.GetOptions().GetGetPreferredAllocationAvailable() {
		t.Errorf("registered as %v", reg)
	}
	resp, err := r.kubelet.Allocate(agenttest.Deadline(t), resourceName, id(1), id(0))
	assert.NilError(t, err)
	if got, want := resp.GetEnvs()["NVIDIA_VISIBLE_DEVICES"], id(1)+","+id(0); got != want {
		t.Errorf("NVIDIA_VISIBLE_DEVICES is %q, want %q", got, want)
	}
	if _, err := r.kubelet.Allocate(agenttest.Deadline(t), resourceName, "GPU-other"); err == nil {
		t.Error("an unknown device was allocated")
	}
}

// An XID that comes before anything is advertised counts.
func TestXIDDuringTheFirstRefresh(t *testing.T) {
	var r *rig
	r = newRig(t, 2, func(c *inventory.Config) {
		c.Preparer = preparer(func(*gpu.Node) (inventory.Prepared, error) {
			r.source.PostXID(gpu.UUID(id(0)), 79)
			return inventory.Prepared{}, nil
		})
	})
	r.startKubelet(t)
	r.run(t)
	r.healths(t, bad, ok)
}

func TestXIDReachesEveryStream(t *testing.T) {
	r := newRig(t, 2, nil)
	r.startKubelet(t)
	r.run(t)
	r.marker.wait(t, true)
	r.healths(t, ok, ok)
	r.watched(t)
	client, err := r.kubelet.Plugin(resourceName)
	assert.NilError(t, err)
	// One more stream that reads, and one that never does.
	second, err := client.ListAndWatch(t.Context(), &pluginapi.Empty{})
	assert.NilError(t, err)
	if _, err := client.ListAndWatch(t.Context(), &pluginapi.Empty{}); err != nil {
		t.Fatal(err)
	}
	if _, err := second.Recv(); err != nil {
		t.Fatal(err)
	}
	r.source.PostXID(gpu.UUID(id(0)), 31)
	r.source.PostXID(gpu.UUID(id(1)), 79)
	r.healths(t, ok, bad)
	list, err := second.Recv()
	assert.NilError(t, err)
	if got := list.GetDevices()[1].GetHealth(); got != bad {
		t.Errorf("the second stream has device 1 as %s, want %s", got, bad)
	}
	assert.NilError(t, r.plugin.Ready(), "Ready with one bad GPU")
}

func TestKubeletReturns(t *testing.T) {
	r := newRig(t, 1, nil)
	r.startKubelet(t)
	r.run(t)
	r.marker.wait(t, true)
	r.watched(t)
	before := r.source.Calls()
	for i := range 3 {
		r.kubelet.Stop()
		r.marker.wait(t, false)
		r.startKubelet(t)
		if _, err := r.kubelet.WaitRegistrations(agenttest.Deadline(t), i+2); err != nil {
			t.Fatal(err)
		}
		r.healths(t, ok)
		r.marker.wait(t, true)
	}
	if diff := cmp.Diff(before, r.source.Calls()); diff != "" {
		t.Errorf("the driver was asked when the kubelet came back (-before +after):\n%s", diff)
	}
}

func TestOwnSocketIsMadeAgainWithoutDroppingStreams(t *testing.T) {
	r := newRig(t, 1, nil)
	r.startKubelet(t)
	r.run(t)
	r.marker.wait(t, true)
	client, err := r.kubelet.Plugin(resourceName)
	assert.NilError(t, err)
	stream, err := client.ListAndWatch(t.Context(), &pluginapi.Empty{})
	assert.NilError(t, err)
	if _, err := stream.Recv(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(r.dir, "nvidia-gpu.sock")
	assert.NilError(t, os.Remove(path))
	r.sockets <- struct{}{}
	dialable(t, path)
	r.source.PostXID(gpu.UUID(id(0)), 79)
	r.healths(t, bad)
	if list, err := stream.Recv(); err != nil || list.GetDevices()[0].GetHealth() != bad {
		t.Errorf("the old stream got %v, %v", list, err)
	}
	r.once(t)
}

func TestSocketOfAnotherPluginIsLeftAlone(t *testing.T) {
	r := newRig(t, 1, nil)
	r.startKubelet(t)
	r.run(t)
	r.marker.wait(t, true)
	path := r.otherPlugin(t)
	r.marker.wait(t, false)
	r.end(t)
	if data, err := os.ReadFile(path); err != nil || string(data) != "other" {
		t.Errorf("the other plugin's socket is %q, %v", data, err)
	}
}

func TestRegistrationIsRetried(t *testing.T) {
	r := newRig(t, 1, nil)
	r.kubelet.Reject(errors.New("not now"))
	r.startKubelet(t)
	r.run(t)
	assert.NilError(t, r.kubelet.WaitRejections(agenttest.Deadline(t), 2))
	r.kubelet.Reject(nil)
	r.marker.wait(t, true)
}

func TestStopRemovesTheSocket(t *testing.T) {
	r := newRig(t, 1, nil)
	r.startKubelet(t)
	r.run(t)
	r.marker.wait(t, true)
	r.end(t)
	r.marker.wait(t, false)
	if _, err := os.Lstat(filepath.Join(r.dir, "nvidia-gpu.sock")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket is still there: %v", err)
	}
}
