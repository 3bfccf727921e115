package users_test

import (
	"path/filepath"
	"testing"

	"gotest.tools/v3/assert"

	"outrigger.dev/agents/mig-manager/internal/manager"
	"outrigger.dev/agents/mig-manager/internal/users"
	"outrigger.dev/pkg/contract"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/gputest"
	"outrigger.dev/pkg/gpu/index"
	"outrigger.dev/pkg/gpu/mig"
	"outrigger.dev/pkg/kube/apitest"
	"outrigger.dev/pkg/podresources"
	"outrigger.dev/pkg/podresources/podresourcestest"
)

// The index of a destroyed MIG device is free when no container has the device, whatever the name of
// its resource.
func TestIndicesOfDestroyedMIGDevices(t *testing.T) {
	const one, two, three, four = gpu.UUID("MIG-00000000-0000-4000-8000-000000000001"), gpu.UUID("MIG-00000000-0000-4000-8000-000000000002"), gpu.UUID("MIG-00000000-0000-4000-8000-000000000003"), gpu.UUID("MIG-00000000-0000-4000-8000-000000000004")
	socket := filepath.Join(t.TempDir(), "kubelet.sock")
	kubelet := podresourcestest.Start(t, socket)
	client, err := podresources.New(podresources.Config{Socket: socket})
	assert.NilError(t, err)
	t.Cleanup(func() { _ = client.Close() })
	pins := index.New(index.Config{Contract: contract.Dir{Root: t.TempDir()}, Writer: "mig-manager"})
	server := apitest.New(t, nil)
	source := gputest.New(gputest.Node(gputest.H100, 1))
	f := users.Finder{Source: source, Kubelet: client, Pins: pins, Client: apitest.Client(t, server.Config, server.Name, manager.Name)}
	list := func(devices ...gpu.UUID) *gpu.Node {
		n := gputest.Node(gputest.H100, 1)
		n.GPUs[0].MIG = &gpu.MIG{Enabled: true}
		for i, id := range devices {
			n.GPUs[0].MIG.Devices = append(n.GPUs[0].MIG.Devices, gpu.MIGDevice{UUID: id, Index: i})
		}
		source.SetNode(n)
		return n
	}
	held := func() {
		t.Helper()
		if _, err := f.Held(t.Context(), []mig.GPU{{UUID: gputest.Node(gputest.H100, 1).GPUs[0].UUID}}); err != nil {
			t.Fatal(err)
		}
	}
	check := func(what string, want int) {
		t.Helper()
		n := list(two)
		if pins.Apply(n); n.GPUs[0].MIG.Devices[0].Index != want {
			t.Errorf("%s: the new device has the index %d, want %d", what, n.GPUs[0].MIG.Devices[0].Index, want)
		}
	}
	pins.Apply(list(one))
	kubelet.Set(podresourcestest.Pod("default", "pod", podresourcestest.Container("main", "example.com/part", string(one))))
	list()
	held()
	check("a container has the destroyed device", 1)
	kubelet.Set()
	list(two)
	held()
	n := list(two, three)
	if pins.Apply(n); n.GPUs[0].MIG.Devices[0].Index != 1 || n.GPUs[0].MIG.Devices[1].Index != 0 {
		t.Errorf("no container has the destroyed device: %+v", n.GPUs[0].MIG.Devices)
	}
	ended := f.Changing([]gpu.UUID{n.GPUs[0].UUID})
	list(two)
	ended(t.Context())
	list(three)
	n = list(three, four)
	if pins.Apply(n); n.GPUs[0].MIG.Devices[0].Index != 0 || n.GPUs[0].MIG.Devices[1].Index != 2 {
		t.Errorf("the change destroyed three, and then a person destroyed two: %+v", n.GPUs[0].MIG.Devices)
	}
}
