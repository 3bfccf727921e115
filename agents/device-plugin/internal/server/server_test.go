package server_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gotest.tools/v3/assert"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"outrigger.dev/agents/device-plugin/internal/allocate"
	"outrigger.dev/agents/device-plugin/internal/server"
	"outrigger.dev/pkg/agent/agenttest"
	"outrigger.dev/pkg/config"
	"outrigger.dev/pkg/resource"
)

func options() allocate.Options {
	return allocate.Options{ListStrategies: []config.ListStrategy{config.ListEnvvar, config.ListCDIAnnotations}, CDIAnnotationPrefix: "cdi.k8s.io/"}
}

func TestServesRegistersAndGoes(t *testing.T) {
	r := newRig(t)
	if got := r.server.Status(); got != (server.Status{}) {
		t.Errorf("status before Run is %+v", got)
	}
	r.server.Publish(gpus(2, 1), options())
	r.run(t)
	r.status(t, server.Status{Serving: true, Registered: true, Listed: true})
	r.healths(t, ok, ok)
	opts, err := r.plugin(t).GetDevicePluginOptions(agenttest.Deadline(t), &pluginapi.Empty{})
	if err != nil || !opts.GetGetPreferredAllocationAvailable() || opts.GetPreStartRequired() {
		t.Errorf("options are %v, %v", opts, err)
	}
	r.end(t)
	if got := r.server.Status(); got != (server.Status{}) {
		t.Errorf("status after Run is %+v", got)
	}
	if _, err := os.Lstat(filepath.Join(filepath.Dir(r.kubelet.Socket()), server.SocketName(resourceName))); err == nil {
		t.Error("the socket is left behind")
	}
	assert.NilError(t, r.kubelet.WaitUnlisted(agenttest.Deadline(t), resourceName))
	if got := r.recorder.registered; len(got) != 1 || got[0] != nil {
		t.Errorf("recorded registrations: %v", got)
	}
}

func TestEveryReplicaFallsSickAndRecovers(t *testing.T) {
	r := newRig(t)
	r.server.Publish(gpus(3, 3), options())
	r.run(t)
	r.healths(t, ok, ok, ok, ok, ok, ok, ok, ok, ok)
	r.server.Publish(gpus(3, 3, 1), options())
	r.healths(t, ok, ok, ok, bad, bad, bad, ok, ok, ok)
	r.server.Publish(gpus(3, 3), options())
	r.healths(t, ok, ok, ok, ok, ok, ok, ok, ok, ok)
}

// The kubelet is not sent what it knows: a list that follows is the next one.
func TestSendsOnlyWhatIsNew(t *testing.T) {
	r := newRig(t)
	r.server.Publish(gpus(2, 1), options())
	r.run(t)
	r.healths(t, ok, ok)
	sick := gpus(2, 1, 0)
	sick.Devices[0].Health.Reason = "xid 79"
	same := gpus(2, 1)
	same.Devices[1].Paths = []string{"/dev/nvidia1"}
	r.server.Publish(same, options())
	r.server.Publish(sick, options())
	r.healths(t, bad, ok)
	if n := r.kubelet.Lists(resourceName); n != 2 {
		t.Errorf("the kubelet was sent %d lists, want 2", n)
	}
	// What is not in the list is in effect all the same.
	resp, err := r.kubelet.Allocate(agenttest.Deadline(t), resourceName, string(sick.Devices[1].UUID))
	if err != nil || resp.GetEnvs()["NVIDIA_VISIBLE_DEVICES"] != string(sick.Devices[1].UUID) {
		t.Errorf("answer is %v, %v", resp, err)
	}
}

func TestAnswersForEachContainer(t *testing.T) {
	r := newRig(t)
	res := gpus(4, 2)
	res.FailRequestsGreaterThanOne = true
	r.server.Publish(res, options())
	r.run(t)
	r.status(t, server.Status{Serving: true, Registered: true, Listed: true})
	first, last := res.Devices[0], res.Devices[3]
	resp, err := r.plugin(t).Allocate(agenttest.Deadline(t), &pluginapi.AllocateRequest{ContainerRequests: []*pluginapi.ContainerAllocateRequest{
		{DevicesIds: []string{last.ID(1)}}, {DevicesIds: []string{first.ID(0)}},
	}})
	assert.NilError(t, err)
	var got []string
	keys := map[string]bool{}
	for _, c := range resp.GetContainerResponses() {
		got = append(got, c.GetEnvs()["NVIDIA_VISIBLE_DEVICES"])
		for k := range c.GetAnnotations() {
			keys[k] = true
		}
	}
	if diff := cmp.Diff([]string{string(last.UUID), string(first.UUID)}, got); diff != "" {
		t.Errorf("devices (-want +got):\n%s", diff)
	}
	if len(keys) != 2 {
		t.Errorf("annotations have the keys %v, want one for each container", keys)
	}
	for id, want := range map[string]string{
		"GPU-other": `invalid allocation request for "nvidia.com/gpu": invalid request: unknown device: GPU-other`,
		last.ID(0):  `invalid allocation request for "nvidia.com/gpu": invalid request: maximum request size for shared resources is 1; found 2`,
	} {
		if _, err := r.kubelet.Allocate(agenttest.Deadline(t), resourceName, first.ID(0), id); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error is %v, want %q in it", err, want)
		}
	}
	if n := len(r.recorder.allocated); n != 3 || r.recorder.allocated[0] != nil || r.recorder.allocated[1] == nil {
		t.Errorf("recorded allocations: %v", r.recorder.allocated)
	}
}

func TestPrefersForEachContainer(t *testing.T) {
	r := newRig(t)
	res := gpus(4, 2)
	opts := options()
	opts.Policy = config.PolicySpread
	r.server.Publish(res, opts)
	r.run(t)
	r.status(t, server.Status{Serving: true, Registered: true, Listed: true})
	var ids []string
	for _, d := range res.Devices {
		ids = append(ids, d.ID(1), d.ID(0))
	}
	ask := func(requests ...*pluginapi.ContainerPreferredAllocationRequest) (*pluginapi.PreferredAllocationResponse, error) {
		return r.plugin(t).GetPreferredAllocation(agenttest.Deadline(t), &pluginapi.PreferredAllocationRequest{ContainerRequests: requests})
	}
	resp, err := ask(
		&pluginapi.ContainerPreferredAllocationRequest{AvailableDeviceIDs: ids, AllocationSize: 2},
		&pluginapi.ContainerPreferredAllocationRequest{AvailableDeviceIDs: ids, MustIncludeDeviceIDs: ids[:1], AllocationSize: 1},
	)
	assert.NilError(t, err)
	var got [][]string
	for _, c := range resp.GetContainerResponses() {
		got = append(got, c.GetDeviceIDs())
	}
	want := [][]string{{res.Devices[0].ID(0), res.Devices[1].ID(0)}, {res.Devices[0].ID(1)}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("devices (-want +got):\n%s", diff)
	}
	_, err = ask(&pluginapi.ContainerPreferredAllocationRequest{AvailableDeviceIDs: ids, AllocationSize: -1})
	if want := `choose devices of "nvidia.com/gpu": invalid request: allocation size -1 is negative`; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error is %v, want %q in it", err, want)
	}
}

// The kubelet accepts the longest list that package resource derives: 3,900 replicas of each
// of 16 GPUs.
func TestServesTheLongestList(t *testing.T) {
	r := newRig(t)
	r.run(t)
	r.status(t, server.Status{Serving: true, Registered: true, Listed: true})
	const replicas = 3900
	for _, res := range []resource.Resource{gpus(16, replicas), gpus(16, replicas, 3)} {
		r.server.Publish(res, options())
		u, err := r.kubelet.WaitDevices(agenttest.Deadline(t), resourceName, func(ds []*pluginapi.Device) bool {
			return len(ds) > 0 && (ds[3*replicas].GetHealth() == ok) == res.Devices[3].Health.Healthy
		})
		assert.NilError(t, err)
		if len(u.Devices) != 16*replicas {
			t.Errorf("the kubelet lists %d replicas, want %d", len(u.Devices), 16*replicas)
		}
		if _, err := r.kubelet.Allocate(agenttest.Deadline(t), resourceName, res.Devices[15].ID(replicas-1)); err != nil {
			t.Error(err)
		}
		if _, err := r.kubelet.Allocate(agenttest.Deadline(t), resourceName, res.Devices[15].ID(replicas)); err == nil {
			t.Error("a replica that is not advertised was allocated")
		}
	}
	r.server.Publish(gpus(1, 1), options())
	r.healths(t, ok)
	r.end(t)
}

// A kubelet that is back finds what is advertised by then.
func TestServesAKubeletThatIsBack(t *testing.T) {
	r := newRig(t)
	r.server.Publish(gpus(1, 1), options())
	r.run(t)
	r.status(t, server.Status{Serving: true, Registered: true, Listed: true})
	r.kubelet.Stop()
	r.server.Publish(gpus(2, 1, 1), options())
	assert.NilError(t, r.kubelet.Start())
	r.server.Wake()
	r.healths(t, ok, bad)
}

func TestSocketNamesAreThoseOfNVIDIA(t *testing.T) {
	for res, want := range map[string]string{
		"nvidia.com/gpu":        "nvidia-gpu.sock",
		"nvidia.com/gpu.shared": "nvidia-gpu.shared.sock",
		"nvidia.com/mig-1g.5gb": "nvidia-mig-1g.5gb.sock",
	} {
		if got := server.SocketName(res); got != want {
			t.Errorf("SocketName(%s) is %q, want %q", res, got, want)
		}
	}
}
