package server_test

import (
	"log/slog"
	"path/filepath"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/mem"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"outrigger.dev/agents/device-plugin/internal/allocate"
	"outrigger.dev/agents/device-plugin/internal/server"
	"outrigger.dev/pkg/resource"
)

// alone returns a server that runs without a kubelet, and a client with the
// defaults of grpc-go, as the kubelet has them.
func alone(b *testing.B, res resource.Resource) (*rig, pluginapi.DevicePluginClient) {
	b.Helper()
	r := newRig(b)
	r.server = server.New(server.Config{
		Resource: resourceName, KubeletSocket: r.kubelet.Socket(), Recorder: r.recorder,
		Changed: func() {}, Log: slog.New(slog.DiscardHandler),
	})
	r.server.Publish(res, allocate.Options{})
	r.run(b)
	path := filepath.Join(filepath.Dir(r.kubelet.Socket()), server.SocketName(resourceName))
	conn, err := grpc.NewClient("unix://"+path, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = conn.Close() })
	client := pluginapi.NewDevicePluginClient(conn)
	if _, err := client.GetDevicePluginOptions(limit(b), &pluginapi.Empty{}, grpc.WaitForReady(true)); err != nil {
		b.Fatal(err)
	}
	return r, client
}

// arrival takes messages as they come by the socket: what a kubelet spends on
// reading 11,200 entries is its own, and more than all before it.
type arrival struct{ bytes int }

func (*arrival) Name() string { return "arrival" }

func (*arrival) Marshal(any) (mem.BufferSlice, error) { return nil, nil }

func (a *arrival) Unmarshal(data mem.BufferSlice, _ any) error {
	a.bytes = data.Len()
	return nil
}

// BenchmarkHealthOverTheSocket makes one of 16 GPUs, which has 700 of 11,200
// entries, sick and well again, until the kubelet has the list: arrived, and
// read.
func BenchmarkHealthOverTheSocket(b *testing.B) {
	well, sick := gpus(16, 700), gpus(16, 700, 3)
	for name, options := range map[string][]grpc.CallOption{
		"arrived": {grpc.ForceCodecV2(&arrival{})},
		"read":    nil,
	} {
		b.Run(name, func(b *testing.B) {
			r, client := alone(b, well)
			stream, err := client.ListAndWatch(b.Context(), &pluginapi.Empty{}, options...)
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
		})
	}
}

// BenchmarkPreferredOverTheSocket names all 11,200 entries in the request.
func BenchmarkPreferredOverTheSocket(b *testing.B) {
	res := gpus(16, 700)
	_, client := alone(b, res)
	var ids []string
	for _, d := range res.Devices {
		for n := range d.Replicas {
			ids = append(ids, d.ID(n))
		}
	}
	for b.Loop() {
		if _, err := client.GetPreferredAllocation(b.Context(), &pluginapi.PreferredAllocationRequest{
			ContainerRequests: []*pluginapi.ContainerPreferredAllocationRequest{{AvailableDeviceIDs: ids, AllocationSize: 8}},
		}); err != nil {
			b.Fatal(err)
		}
	}
}
