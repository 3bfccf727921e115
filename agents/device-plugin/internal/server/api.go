package server

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"google.golang.org/grpc"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

var _ pluginapi.DevicePluginServer = (*Server)(nil)

// GetDevicePluginOptions returns the optional calls that the Server supports.
func (s *Server) GetDevicePluginOptions(context.Context, *pluginapi.Empty) (*pluginapi.DevicePluginOptions, error) {
	return options(), nil
}

func options() *pluginapi.DevicePluginOptions {
	return &pluginapi.DevicePluginOptions{GetPreferredAllocationAvailable: true}
}

// ListAndWatch sends the devices at the start and whenever they change.
func (s *Server) ListAndWatch(_ *pluginapi.Empty, to grpc.ServerStreamingServer[pluginapi.ListAndWatchResponse]) error {
	ctx, stream := to.Context(), s.registration.open()
	defer s.registration.close(stream)
	for {
		st, changed := s.feed.get()
		if err := to.Send(st.list); err != nil {
			return fmt.Errorf("send devices of %s: %w", s.cfg.Resource, err)
		}
		s.registration.recordSent(stream, st.number)
		select {
		case <-changed:
		case <-stream.over:
			return nil
		case <-ctx.Done():
			return nil
		}
	}
}

// linksLimit is how long a request waits for the links of the GPUs. The kubelet does not start
// other pods during a request. NVML reads the links of 8 GPUs in 40 ms if a call takes 100 µs.
const linksLimit = time.Second

// linked returns the newest state. If the answer depends on the links of the GPUs, it waits
// until they are known. If the driver does not answer in time, the choice ignores the links.
func (s *Server) linked(ctx context.Context) state {
	st, _ := s.feed.get()
	if s.cfg.WaitLinks == nil || !st.allocator.NeedsLinks() {
		return st
	}
	ctx, cancel := context.WithTimeout(ctx, linksLimit)
	defer cancel()
	s.cfg.WaitLinks(ctx)
	st, _ = s.feed.get()
	return st
}

// GetPreferredAllocation returns the preferred devices for each container, among the free ones.
func (s *Server) GetPreferredAllocation(ctx context.Context, req *pluginapi.PreferredAllocationRequest) (*pluginapi.PreferredAllocationResponse, error) {
	st := s.linked(ctx)
	resp := &pluginapi.PreferredAllocationResponse{}
	for _, c := range req.GetContainerRequests() {
		ids, err := st.allocator.Preferred(c.GetAvailableDeviceIDs(), c.GetMustIncludeDeviceIDs(), int(c.GetAllocationSize()))
		if err != nil {
			return nil, fmt.Errorf("choose devices of %q: %w", s.cfg.Resource, err)
		}
		resp.ContainerResponses = append(resp.ContainerResponses, &pluginapi.ContainerPreferredAllocationResponse{DeviceIDs: ids})
	}
	return resp, nil
}

// Allocate returns the variables, mounts and devices that each container needs.
func (s *Server) Allocate(_ context.Context, req *pluginapi.AllocateRequest) (*pluginapi.AllocateResponse, error) {
	start := time.Now()
	resp, err := s.allocate(req)
	s.cfg.Recorder.Allocated(s.cfg.Resource, time.Since(start), err)
	return resp, err
}

func (s *Server) allocate(req *pluginapi.AllocateRequest) (*pluginapi.AllocateResponse, error) {
	st, _ := s.feed.get()
	resp := &pluginapi.AllocateResponse{}
	for _, c := range req.GetContainerRequests() {
		answer, err := st.allocator.Allocate(c.GetDevicesIds(), rand.Text())
		if err != nil {
			return nil, fmt.Errorf("invalid allocation request for %q: %w", s.cfg.Resource, err)
		}
		resp.ContainerResponses = append(resp.ContainerResponses, answer)
	}
	return resp, nil
}
