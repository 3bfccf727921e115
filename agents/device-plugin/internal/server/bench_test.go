package server_test

import (
	"log/slog"
	"path/filepath"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"outrigger.dev/agents/device-plugin/internal/allocate"
	"outrigger.dev/agents/device-plugin/internal/server"
	"outrigger.dev/pkg/agent/agenttest"
	"outrigger.dev/pkg/gpu/gputest"
	"outrigger.dev/pkg/resource"
)

// alone returns a server that runs without a kubelet, and a client with the
// defaults of grpc-go, as the kubelet has them.
func alone(b *testing.B, res resource.Resource, opts allocate.Options) (*rig, pluginapi.DevicePluginClient) {
	b.Helper()
	r := newRig(b)
	r.server = server.New(server.Config{
		Resource: resourceName, KubeletSocket: r.kubelet.Socket(), Recorder: r.recorder,
		Changed: func() {}, Log: slog.New(slog.DiscardHandler),
	})
	r.server.Publish(res, opts)
	r.run(b)
	path := filepath.Join(filepath.Dir(r.kubelet.Socket()), server.SocketName(resourceName))
	conn, err := grpc.NewClient("unix://"+path, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = conn.Close() })
	client := pluginapi.NewDevicePluginClient(conn)
	if _, err := client.GetDevicePluginOptions(agenttest.Deadline(b), &pluginapi.Empty{}, grpc.WaitForReady(true)); err != nil {
		b.Fatal(err)
	}
	return r, client
}

// BenchmarkHealthOverTheSocket makes one of 16 GPUs, which has 700 of 11,200
// entries, sick and well again, until the kubelet has the list.
func BenchmarkHealthOverTheSocket(b *testing.B) {
	well, sick := gpus(16, 700), gpus(16, 700, 3)
	r, client := alone(b, well, allocate.Options{})
	stream, err := client.ListAndWatch(b.Context(), &pluginapi.Empty{})
	if err != nil {
		b.Fatal(err)
	}
	if _, err := stream.Recv(); err != nil {
		b.Fatal(err)
	}
	for n := 0; b.Loop(); n++ {
		r.server.Publish([]resource.Resource{sick, well}[n%2], allocate.Options{})
		if _, err := stream.Recv(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkPreferredOverTheSocket names all devices in a request for half of the GPUs: the
// most sets, and the most entries.
func BenchmarkPreferredOverTheSocket(b *testing.B) {
	for name, size := range map[string]struct{ gpus, replicas int }{
		"8-GPUs": {8, 1}, "16-GPUs": {16, 1}, "112-devices-100-times": {112, 100},
	} {
		b.Run(name, func(b *testing.B) {
			res := gpus(size.gpus, size.replicas)
			_, client := alone(b, res, allocate.Options{Topology: allocate.NewTopology(gputest.Node(gputest.H100, size.gpus))})
			var ids []string
			for _, d := range res.Devices {
				for n := range d.Replicas {
					ids = append(ids, d.ID(n))
				}
			}
			for b.Loop() {
				if _, err := client.GetPreferredAllocation(b.Context(), &pluginapi.PreferredAllocationRequest{
					ContainerRequests: []*pluginapi.ContainerPreferredAllocationRequest{{
						AvailableDeviceIDs: ids, AllocationSize: int32(min(size.gpus/2, 8)), //nolint:gosec // at most 8
					}},
				}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
