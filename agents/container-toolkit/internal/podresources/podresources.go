// Package podresources asks the kubelet which devices it has allocated to the containers
// of a pod, with the PodResources API v1.
package podresources

import (
	"context"
	"fmt"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"
)

// maxAnswer is the size of the largest answer that the kubelet sends.
const maxAnswer = 16 << 20

// Kubelet is the kubelet of this node.
type Kubelet struct {
	// Socket is where this process sees the socket of the API, which is pod-resources/kubelet.sock
	// in the kubelet's folder.
	Socket string
}

// Device is a device of a device plugin.
type Device struct {
	// Resource is the resource that the container requested: "nvidia.com/gpu".
	Resource string
	// ID of the device, as its plugin lists it.
	ID string
}

// Pod has the devices of the containers that the kubelet lists, by the container's name. The
// kubelet does not list init containers, except for sidecars, and ephemeral containers.
type Pod map[string][]Device

// Pod returns what is allocated to a pod; nil if the kubelet does not know the pod. The
// kubelet allocates the devices of a pod before it creates the first container of it.
//
// The API identifies a pod by its name only. Pod returns an error if there are two of the
// name, as while a static pod is replaced.
func (k Kubelet) Pod(ctx context.Context, namespace, name string) (Pod, error) {
	list, err := k.list(ctx)
	if err != nil {
		return nil, fmt.Errorf("ask the kubelet at %s for allocated devices: %w", k.Socket, err)
	}
	var found Pod
	for _, p := range list {
		if p.GetNamespace() != namespace || p.GetName() != name {
			continue
		}
		if found != nil {
			return nil, fmt.Errorf("ask the kubelet for allocated devices: it lists two pods %s/%s: wait until the older one is gone", namespace, name)
		}
		found = podOf(p)
	}
	return found, nil
}

// list connects for each call: containers are created seldom, and a connection that broke
// with the kubelet's last restart would delay the next call.
func (k Kubelet) list(ctx context.Context) ([]*podresources.PodResources, error) {
	conn, err := grpc.NewClient("passthrough:///kubelet",
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxAnswer)),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", k.Socket)
		}))
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	answer, err := podresources.NewPodResourcesListerClient(conn).List(ctx, &podresources.ListPodResourcesRequest{})
	return answer.GetPodResources(), err
}

func podOf(p *podresources.PodResources) Pod {
	out := Pod{}
	for _, c := range p.GetContainers() {
		var devices []Device
		for _, d := range c.GetDevices() {
			for _, id := range d.GetDeviceIds() {
				devices = append(devices, Device{Resource: d.GetResourceName(), ID: id})
			}
		}
		out[c.GetName()] = devices
	}
	return out
}
