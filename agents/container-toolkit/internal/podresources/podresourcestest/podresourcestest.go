// Package podresourcestest is a kubelet that serves the PodResources API, for tests.
package podresourcestest

import (
	"context"
	"net"
	"path/filepath"
	"sync"
	"testing"

	"google.golang.org/grpc"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"
)

// Kubelet serves the API.
type Kubelet struct {
	podresources.UnimplementedPodResourcesListerServer
	// Socket is its socket.
	Socket string

	mu   sync.Mutex
	pods []*podresources.PodResources
	// hangs is set if answers wait for the end of their request.
	hangs bool
}

// Start starts a kubelet that runs until the test ends.
func Start(t testing.TB) *Kubelet {
	t.Helper()
	k := &Kubelet{Socket: filepath.Join(t.TempDir(), "kubelet.sock")}
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", k.Socket)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	podresources.RegisterPodResourcesListerServer(server, k)
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(listener) })
	t.Cleanup(func() {
		server.Stop()
		serving.Wait()
	})
	return k
}

// Containers are the containers of a pod, with their devices.
type Containers map[string][]*podresources.ContainerDevices

// Devices returns devices of a resource.
func Devices(resource string, ids ...string) *podresources.ContainerDevices {
	return &podresources.ContainerDevices{ResourceName: resource, DeviceIds: ids}
}

// Add adds a pod.
func (k *Kubelet) Add(namespace, name string, containers Containers) {
	p := &podresources.PodResources{Namespace: namespace, Name: name}
	for container, devices := range containers {
		p.Containers = append(p.Containers, &podresources.ContainerResources{Name: container, Devices: devices})
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.pods = append(k.pods, p)
}

// Hang makes the kubelet answer no request any more.
func (k *Kubelet) Hang() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.hangs = true
}

// List answers a request.
func (k *Kubelet) List(ctx context.Context, _ *podresources.ListPodResourcesRequest) (*podresources.ListPodResourcesResponse, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.hangs {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return &podresources.ListPodResourcesResponse{PodResources: k.pods}, nil
}
