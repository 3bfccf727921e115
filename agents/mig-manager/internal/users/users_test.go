package users_test

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"outrigger.dev/agents/mig-manager/internal/manager"
	"outrigger.dev/agents/mig-manager/internal/users"
	"outrigger.dev/pkg/agent/agenttest"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/gputest"
	"outrigger.dev/pkg/kube"
	"outrigger.dev/pkg/kube/apitest"
	"outrigger.dev/pkg/podresources"
	"outrigger.dev/pkg/podresources/podresourcestest"
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
	user := func(name string, index int, device string) manager.User {
		return manager.User{Namespace: "default", Pod: name, Container: "main", GPU: index, Device: device}
	}
	goes := func(d gpu.MIGDevice) []manager.Device {
		return []manager.Device{{GPUInstance: d.GPUInstance, ComputeInstance: d.ComputeInstance}}
	}
	for name, tc := range map[string]struct {
		change manager.GPUChange
		want   []manager.User
	}{
		"nothing goes":            {change: manager.GPUChange{UUID: first.UUID}},
		"one device goes":         {change: manager.GPUChange{UUID: first.UUID, Goes: goes(big)}, want: []manager.User{user("big", 0, "3g.40gb")}},
		"a device that is shared": {change: manager.GPUChange{UUID: first.UUID, Goes: goes(small)}, want: []manager.User{user("shares", 0, "1g.10gb")}},
		"the mode of a whole GPU": {change: manager.GPUChange{UUID: second.UUID, Mode: true}, want: []manager.User{user("whole", 1, "")}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := users.Containers(manager.Change{GPUs: []manager.GPUChange{tc.change}}, n, by)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("users (-want +got):\n%s", diff)
			}
		})
	}
	both, err := users.Containers(manager.Change{GPUs: []manager.GPUChange{{UUID: first.UUID, Mode: true}}}, n, by)
	if err != nil || len(both) != 2 {
		t.Errorf("Containers() = %v, %v, want those of both MIG devices", both, err)
	}
	if _, err := users.Containers(manager.Change{GPUs: []manager.GPUChange{{UUID: "GPU-gone"}}}, n, by); err == nil {
		t.Error("no error for a GPU that the driver does not list")
	}
}

func TestMerge(t *testing.T) {
	container := manager.User{Namespace: "default", Pod: "a", Container: "main", GPU: 1, Device: "1g.10gb"}
	known := manager.User{Namespace: "default", Pod: "a", PID: 7, GPU: 1}
	other := manager.User{Namespace: "default", Pod: "b", PID: 8, GPU: 1}
	host := manager.User{PID: 9, Unit: "nvsm.service", GPU: 1}
	got := users.Merge([]manager.User{container}, []manager.User{known, other, host})
	if diff := cmp.Diff([]manager.User{container, other, host}, got); diff != "" {
		t.Errorf("users (-want +got):\n%s", diff)
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
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	server := apitest.New(t, nil)
	api := apitest.Client(t, server.Config, server.Name, manager.Name)
	f := users.Finder{Source: gputest.New(n), Kubelet: client, Client: api}
	change := manager.Change{GPUs: []manager.GPUChange{{UUID: g.UUID, Mode: true}}}
	if got, err := f.Of(t.Context(), change); err != nil || len(got) != 0 {
		t.Errorf("Of() = %v, %v, want no user: the pod does not exist", got, err)
	}
	first := n.GPUs[0]
	device := first.MIG.Devices[0]
	kubelet.Set(
		podresourcestest.Pod("default", "gone", podresourcestest.Container("main", "nvidia.com/gpu", string(g.UUID))),
		podresourcestest.Pod("default", "idle", podresourcestest.Container("main", "nvidia.com/mig-"+device.Profile.String(), string(device.UUID))),
	)
	if all, err := f.All(t.Context()); err != nil || len(all) != 0 {
		t.Errorf("All() = %v, %v, want nothing: no pod exists", all, err)
	}
	server.Answer("get pods", 500, "overloaded")
	want := map[gpu.UUID][]users.Holding{
		g.UUID: {{
			User:   manager.User{Namespace: "default", Pod: "gone", Container: "main", GPU: g.Index},
			Device: manager.Device{GPUInstance: gpu.NoInstance, ComputeInstance: gpu.NoInstance},
		}},
		first.UUID: {{
			User:   manager.User{Namespace: "default", Pod: "idle", Container: "main", GPU: first.Index, Device: device.Profile.String()},
			Device: manager.Device{GPUInstance: device.GPUInstance, ComputeInstance: device.ComputeInstance},
		}},
	}
	if all, err := f.All(t.Context()); err != nil || cmp.Diff(want, all) != "" {
		t.Errorf("All() = %v (-want +got):\n%s", err, cmp.Diff(want, all))
	}
	kubelet.Set(podresourcestest.Pod("default", "gone", podresourcestest.Container("main", "nvidia.com/gpu", string(g.UUID))))
	got, err := f.Of(t.Context(), change)
	if err != nil || len(got) != 1 {
		t.Errorf("Of() = %v, %v, want the pod: nobody says that it has ended", got, err)
	}
	kubelet.Stop()
	if _, err := f.Of(t.Context(), change); err == nil {
		t.Error("no error without the kubelet")
	}
	if _, err := f.All(t.Context()); err == nil {
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
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	server := apitest.New(t, nil)
	api := apitest.Client(t, server.Config, server.Name, manager.Name)
	server.Answer("get pods", 500, "overloaded")
	f := users.Finder{Source: gputest.New(n), Kubelet: client, Client: api}
	change := manager.Change{GPUs: []manager.GPUChange{{UUID: g.UUID, Mode: true}}}
	look := func() {
		t.Helper()
		if got, err := f.Of(t.Context(), change); err != nil || len(got) != 1 {
			t.Fatalf("Of() = %v, %v, want the pod", got, err)
		}
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
	if err != nil {
		t.Fatal(err)
	}
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
	got, err := f.Of(t.Context(), manager.Change{
		GPUs:    []manager.GPUChange{{UUID: g.UUID, Mode: true}},
		Holders: []manager.User{{Namespace: "default", Pod: probe, PID: 7, GPU: 1}, {Namespace: "default", Pod: "job", PID: 8, GPU: 1}, {PID: 9, GPU: 1}},
	})
	if err != nil || len(got) != 4 {
		t.Fatalf("Of() = %v, %v, want 4 users", got, err)
	}
	for i, want := range []bool{true, true, false, false} {
		if got[i].Stays != want {
			t.Errorf("%s: Stays = %t", got[i], got[i].Stays)
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
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	var asked atomic.Int32
	server := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		asked.Add(1)
		panic(http.ErrAbortHandler)
	}))
	t.Cleanup(server.Close)
	api, err := kube.New(kube.Config{Server: server.URL, Dir: agenttest.Account(t, server), Node: "node1", Agent: manager.Name, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	f := users.Finder{Source: gputest.New(n), Kubelet: client, Client: api}
	for range 3 {
		got, err := f.Of(t.Context(), manager.Change{GPUs: []manager.GPUChange{{UUID: g.UUID, Mode: true}}})
		if err != nil || len(got) != 2 {
			t.Fatalf("Of() = %v, %v, want both pods", got, err)
		}
	}
	if got := asked.Load(); got != 1 {
		t.Errorf("the API server was asked %d times, want once", got)
	}
}
