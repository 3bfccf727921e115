// Package podresourcestest is a kubelet that serves the PodResources API, for tests.
package podresourcestest

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	kubelet "k8s.io/kubelet/pkg/apis/podresources/v1"
)

// Kubelet serves the API.
type Kubelet struct {
	api  api
	stop func()
	// accepted counts connections.
	accepted atomic.Int32
}

// Answer answers a request.
type Answer func(context.Context) (*kubelet.ListPodResourcesResponse, error)

// Start starts a kubelet without pods on a socket. It runs until Stop, or until the test ends.
func Start(t testing.TB, socket string, options ...grpc.ServerOption) *Kubelet {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	k := &Kubelet{}
	k.Set()
	server := grpc.NewServer(options...)
	kubelet.RegisterPodResourcesListerServer(server, &k.api)
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(countingListener{l, &k.accepted}) })
	k.stop = sync.OnceFunc(func() {
		server.Stop()
		serving.Wait()
	})
	t.Cleanup(k.stop)
	return k
}

// Set sets the pods that the kubelet lists.
func (k *Kubelet) Set(pods ...*kubelet.PodResources) {
	k.Answer(func(context.Context) (*kubelet.ListPodResourcesResponse, error) {
		return &kubelet.ListPodResourcesResponse{PodResources: pods}, nil
	})
}

// Answer makes the kubelet answer requests with a function, for example one that waits or fails.
func (k *Kubelet) Answer(with Answer) { k.api.answer.Store(&with) }

// Connections returns the number of connections that were made.
func (k *Kubelet) Connections() int { return int(k.accepted.Load()) }

// Stop ends the kubelet, and removes its socket.
func (k *Kubelet) Stop() { k.stop() }

// Pod returns a pod.
func Pod(namespace, name string, containers ...*kubelet.ContainerResources) *kubelet.PodResources {
	return &kubelet.PodResources{Namespace: namespace, Name: name, Containers: containers}
}

// Container returns a container with devices of a resource.
func Container(name, resource string, ids ...string) *kubelet.ContainerResources {
	return &kubelet.ContainerResources{Name: name, Devices: []*kubelet.ContainerDevices{{ResourceName: resource, DeviceIds: ids}}}
}

type api struct {
	kubelet.UnimplementedPodResourcesListerServer
	answer atomic.Pointer[Answer]
}

func (a *api) List(ctx context.Context, _ *kubelet.ListPodResourcesRequest) (*kubelet.ListPodResourcesResponse, error) {
	return (*a.answer.Load())(ctx)
}

// countingListener counts the connections of a listener.
type countingListener struct {
	net.Listener
	accepted *atomic.Int32
}

func (c countingListener) Accept() (net.Conn, error) {
	conn, err := c.Listener.Accept()
	if err == nil {
		c.accepted.Add(1)
	}
	return conn, err
}
