package users_test

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gotest.tools/v3/assert"

	"outrigger.dev/agents/mig-manager/internal/manager"
	"outrigger.dev/agents/mig-manager/internal/users"
	"outrigger.dev/pkg/agent/agenttest"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/gputest"
	"outrigger.dev/pkg/gpu/mig"
	"outrigger.dev/pkg/kube"
	"outrigger.dev/pkg/kube/apitest"
	"outrigger.dev/pkg/podresources"
	"outrigger.dev/pkg/podresources/podresourcestest"
	"outrigger.dev/pkg/procowner"
)

// node has MIG devices on its first GPU, and none on its second.
func node() *gpu.Node {
	return gputest.Partition(gputest.Node(gputest.H100, 2), 0, "3g.40gb", "1g.10gb")
}

func pod(name string) podresources.User {
	return podresources.User{Namespace: "default", Pod: name, Container: "main", Resource: "nvidia.com/mig-1g.10gb"}
}

func TestContainers(t *testing.T) {
	n := node()
	first, second := n.GPUs[0], n.GPUs[1]
	big, small := first.MIG.Devices[0], first.MIG.Devices[1]
	if big.Profile.String() != "3g.40gb" {
		big, small = small, big
	}
	replica := pod("shares")
	replica.Replica = "1"
	by := podresources.Map{
		big.UUID: {pod("big")}, small.UUID: {pod("shares"), replica}, second.UUID: {pod("whole")},
	}
	holder := func(name string, index int, d gpu.MIGDevice) mig.Holder {
		return mig.Holder{
			Process: procowner.Process{Pod: procowner.Pod{Namespace: "default", Name: name}}, GPU: index,
			GPUInstance: d.GPUInstance, ComputeInstance: d.ComputeInstance, Device: d.Profile.String(),
		}
	}
	whole := holder("whole", 1, gpu.MIGDevice{GPUInstance: gpu.NoInstance, ComputeInstance: gpu.NoInstance})
	whole.Device = ""
	byPod := func(a, b mig.Holder) int { return strings.Compare(a.Pod.Name, b.Pod.Name) }
	got := users.Containers(first, by)
	slices.SortFunc(got, byPod)
	if diff := cmp.Diff([]mig.Holder{holder("big", 0, big), holder("shares", 0, small)}, got); diff != "" {
		t.Errorf("of MIG devices (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]mig.Holder{whole}, users.Containers(second, by)); diff != "" {
		t.Errorf("of a GPU (-want +got):\n%s", diff)
	}
}

// TestPodsThatHaveEnded: older kubelets list them, with devices that they do not hold any more.
func TestPodsThatHaveEnded(t *testing.T) {
	n := node()
	g := n.GPUs[1]
	socket := filepath.Join(t.TempDir(), "kubelet.sock")
	kubelet := podresourcestest.Start(t, socket)
	kubelet.Set(podresourcestest.Pod("default", "gone", podresourcestest.Container("main", "nvidia.com/gpu", string(g.UUID))))
	client, err := podresources.New(podresources.Config{Socket: socket})
	assert.NilError(t, err)
	t.Cleanup(func() { _ = client.Close() })
	server := apitest.New(t, nil)
	api := apitest.Client(t, server.Config, server.Name, manager.Name)
	f := users.Finder{Source: gputest.New(n), Kubelet: client, Client: api}
	both := []mig.GPU{{UUID: n.GPUs[0].UUID}, {UUID: g.UUID}}
	if got, err := f.Held(t.Context(), both); err != nil || len(got) != 0 {
		t.Errorf("Held() = %v, %v, want nothing: the pod does not exist", got, err)
	}
	if _, err := f.Held(t.Context(), []mig.GPU{{UUID: "GPU-gone"}}); err == nil {
		t.Error("no error for a GPU that the driver does not list")
	}
	first := n.GPUs[0]
	device := first.MIG.Devices[0]
	kubelet.Set(
		podresourcestest.Pod("default", "gone", podresourcestest.Container("main", "nvidia.com/gpu", string(g.UUID))),
		podresourcestest.Pod("default", "idle", podresourcestest.Container("main", "nvidia.com/mig-"+device.Profile.String(), string(device.UUID))),
	)
	if all, err := f.Held(t.Context(), both); err != nil || len(all) != 0 {
		t.Errorf("Held() = %v, %v, want nothing: no pod exists", all, err)
	}
	server.Answer("get pods", 500, "overloaded")
	got, err := f.Held(t.Context(), both)
	if err != nil || len(got[g.UUID]) != 1 || len(got[first.UUID]) != 1 {
		t.Errorf("Held() = %v, %v, want both pods: nobody says that they have ended", got, err)
	}
	if got, err = f.Held(t.Context(), both[1:]); err != nil || len(got) != 1 || len(got[g.UUID]) != 1 {
		t.Errorf("Held() = %v, %v, want the pod of the GPU", got, err)
	}
	kubelet.Stop()
	if _, err := f.Held(t.Context(), both); err == nil {
		t.Error("no error without the kubelet")
	}
}

// TestALongWaitAsksSeldom: each node of a cluster may wait, for days.
func TestALongWaitAsksSeldom(t *testing.T) {
	n := node()
	g := n.GPUs[1]
	socket := filepath.Join(t.TempDir(), "kubelet.sock")
	kubelet := podresourcestest.Start(t, socket)
	held := podresourcestest.Pod("default", "train-0", podresourcestest.Container("main", "nvidia.com/gpu", string(g.UUID)))
	kubelet.Set(held)
	client, err := podresources.New(podresources.Config{Socket: socket})
	assert.NilError(t, err)
	t.Cleanup(func() { _ = client.Close() })
	server := apitest.New(t, nil)
	api := apitest.Client(t, server.Config, server.Name, manager.Name)
	server.Answer("get pods", 500, "overloaded")
	f := users.Finder{Source: gputest.New(n), Kubelet: client, Client: api}
	look := func() {
		t.Helper()
		if got, err := f.Held(t.Context(), []mig.GPU{{UUID: g.UUID}}); err != nil || len(got[g.UUID]) != 1 {
			t.Fatalf("Held() = %v, %v, want the pod", got, err)
		}
		f.Stays(t.Context(), procowner.Pod{Namespace: "default", Name: "train-0"})
	}
	for range 5 {
		look()
	}
	if got := server.Requests()["get pods"]; got != 1 {
		t.Errorf("%d requests for five looks at a pod, want 1", got)
	}
}

// TestPodsThatComeBack: an eviction of them would be repeated for ever.
func TestPodsThatComeBack(t *testing.T) {
	n := node()
	g := n.GPUs[1]
	socket := filepath.Join(t.TempDir(), "kubelet.sock")
	client, err := podresources.New(podresources.Config{Socket: socket})
	assert.NilError(t, err)
	t.Cleanup(func() { _ = client.Close() })
	server := apitest.New(t, nil)
	agent, probe := server.Name+"-agent", server.Name+"-probe"
	for _, name := range []string{agent, probe} {
		server.Do(http.MethodPost, "/api/v1/namespaces/default/pods", map[string]any{
			"metadata": map[string]any{"name": name, "ownerReferences": []any{
				map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "name": "notes", "uid": "uid-of-notes"},
				map[string]any{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": name, "uid": "uid-of-" + name, "controller": true},
			}},
			"spec": map[string]any{"containers": []any{map[string]any{"name": "main", "image": "image"}}},
		}, &struct{}{})
	}
	podresourcestest.Start(t, socket).Set(podresourcestest.Pod("default", agent, podresourcestest.Container("main", "nvidia.com/gpu", string(g.UUID))))
	api := apitest.Client(t, server.Config, server.Name, manager.Name)
	f := users.Finder{Source: gputest.New(n), Kubelet: client, Client: api}
	if got, err := f.Held(t.Context(), []mig.GPU{{UUID: g.UUID}}); err != nil || len(got[g.UUID]) != 1 {
		t.Fatalf("Held() = %v, %v, want the pod", got, err)
	}
	for name, want := range map[string]bool{agent: true, probe: true, "job": false} {
		if got := f.Stays(t.Context(), procowner.Pod{Namespace: "default", Name: name}); got != want {
			t.Errorf("Stays(%s) = %t", name, got)
		}
	}
}

// TestAnAPIServerThatIsAway: each question may take its whole time-out.
func TestAnAPIServerThatIsAway(t *testing.T) {
	n := node()
	g := n.GPUs[1]
	socket := filepath.Join(t.TempDir(), "kubelet.sock")
	podresourcestest.Start(t, socket).Set(
		podresourcestest.Pod("default", "train-0", podresourcestest.Container("main", "nvidia.com/gpu", string(g.UUID))),
		podresourcestest.Pod("default", "train-1", podresourcestest.Container("main", "nvidia.com/gpu", string(g.UUID))),
	)
	client, err := podresources.New(podresources.Config{Socket: socket})
	assert.NilError(t, err)
	t.Cleanup(func() { _ = client.Close() })
	var asked atomic.Int32
	server := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		asked.Add(1)
		panic(http.ErrAbortHandler)
	}))
	t.Cleanup(server.Close)
	api, err := kube.New(kube.Config{Server: server.URL, Dir: agenttest.Account(t, server), Node: "node1", Agent: manager.Name, Log: slog.New(slog.DiscardHandler)})
	assert.NilError(t, err)
	f := users.Finder{Source: gputest.New(n), Kubelet: client, Client: api}
	for range 3 {
		got, err := f.Held(t.Context(), []mig.GPU{{UUID: g.UUID}})
		if err != nil || len(got[g.UUID]) != 2 {
			t.Fatalf("Held() = %v, %v, want both pods", got, err)
		}
	}
	if got := asked.Load(); got != 1 {
		t.Errorf("the API server was asked %d times, want once", got)
	}
}
