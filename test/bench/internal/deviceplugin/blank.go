package deviceplugin

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// Blank is a device plugin that does nothing: it does not decode requests for preferred
// devices, and its lists are already encoded. The duration of a call is the minimum for
// any plugin: gRPC, the socket, and the switch between two processes.
type Blank struct {
	pluginapi.UnimplementedDevicePluginServer
	kubelet string
	// lists are sent in turn. Each call of PreStartContainer sends the next one.
	lists []mem.BufferSlice
	next  chan struct{}
}

// NewBlank returns a Blank for the kubelet's socket. In every second list, the first
// devices are unhealthy.
func NewBlank(kubelet string, devices, unhealthy int) (*Blank, error) {
	b := &Blank{kubelet: kubelet, next: make(chan struct{})}
	for _, n := range []int{0, unhealthy} {
		l := &pluginapi.ListAndWatchResponse{}
		for i := range devices {
			d := &pluginapi.Device{ID: blankID(i), Health: pluginapi.Healthy}
			if i < n {
				d.Health = pluginapi.Unhealthy
			}
			d.Topology = &pluginapi.TopologyInfo{Nodes: []*pluginapi.NUMANode{{ID: 1}}}
			l.Devices = append(l.Devices, d)
		}
		wire, err := encoding.GetCodecV2(proto.Name).Marshal(l)
		if err != nil {
			return nil, fmt.Errorf("encode list: %w", err)
		}
		b.lists = append(b.lists, mem.BufferSlice{mem.SliceBuffer(wire.Materialize())})
	}
	return b, nil
}

// blankID returns an id with the length of the id of a MIG device's replica.
func blankID(i int) string {
	return fmt.Sprintf("MIG-00000000-0000-4000-8000-%012x::%d", i/100, i%100)
}

// Run serves until ctx ends.
func (b *Blank) Run(ctx context.Context) error {
	const name = "blank.sock"
	l, err := (&net.ListenConfig{}).Listen(ctx, "unix", filepath.Join(filepath.Dir(b.kubelet), name))
	if err != nil {
		return err
	}
	// The plugin has the same options.
	const window = 4 << 20
	s := grpc.NewServer(grpc.ForceServerCodecV2(blankCodec{encoding.GetCodecV2(proto.Name)}),
		grpc.StaticStreamWindowSize(window), grpc.StaticConnWindowSize(window))
	pluginapi.RegisterDevicePluginServer(s, b)
	stop := context.AfterFunc(ctx, s.Stop)
	defer stop()
	failed := make(chan error, 1)
	go func() { failed <- b.register(ctx, name) }()
	return errors.Join(s.Serve(l), <-failed)
}

func (b *Blank) register(ctx context.Context, endpoint string) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	conn, err := grpc.NewClient("unix://"+b.kubelet, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	_, err = pluginapi.NewRegistrationClient(conn).Register(ctx, &pluginapi.RegisterRequest{
		Version: pluginapi.Version, Endpoint: endpoint, ResourceName: resource,
	})
	return errors.Join(err, conn.Close())
}

// GetDevicePluginOptions enables all calls.
func (b *Blank) GetDevicePluginOptions(context.Context, *pluginapi.Empty) (*pluginapi.DevicePluginOptions, error) {
	return &pluginapi.DevicePluginOptions{GetPreferredAllocationAvailable: true, PreStartRequired: true}, nil
}

// GetPreferredAllocation chooses nothing.
func (b *Blank) GetPreferredAllocation(context.Context, *pluginapi.PreferredAllocationRequest) (*pluginapi.PreferredAllocationResponse, error) {
	return &pluginapi.PreferredAllocationResponse{}, nil
}

// PreStartContainer makes ListAndWatch send the next list.
func (b *Blank) PreStartContainer(ctx context.Context, _ *pluginapi.PreStartContainerRequest) (*pluginapi.PreStartContainerResponse, error) {
	select {
	case b.next <- struct{}{}:
	case <-ctx.Done():
	}
	return &pluginapi.PreStartContainerResponse{}, ctx.Err()
}

// ListAndWatch sends the lists in turn.
func (b *Blank) ListAndWatch(_ *pluginapi.Empty, stream grpc.ServerStreamingServer[pluginapi.ListAndWatchResponse]) error {
	for i := 0; ; i++ {
		if err := stream.SendMsg(b.lists[i%len(b.lists)]); err != nil {
			return err
		}
		select {
		case <-b.next:
		case <-stream.Context().Done():
			return nil
		}
	}
}

// blankCodec sends lists that are already encoded, and does not decode requests for
// preferred devices.
type blankCodec struct{ encoding.CodecV2 }

func (c blankCodec) Marshal(v any) (mem.BufferSlice, error) {
	if wire, ok := v.(mem.BufferSlice); ok {
		return wire, nil
	}
	return c.CodecV2.Marshal(v)
}

func (c blankCodec) Unmarshal(data mem.BufferSlice, v any) error {
	if _, ok := v.(*pluginapi.PreferredAllocationRequest); ok {
		return nil
	}
	return c.CodecV2.Unmarshal(data, v)
}
