package server

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"time"

	"google.golang.org/grpc"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"outrigger.dev/agents/device-plugin/internal/wire"
)

var _ pluginapi.DevicePluginServer = (*Server)(nil)

// service returns the device plugin API as the Server serves it: a
// wire.PreferredRequest takes the place of the generated type.
func (s *Server) service() *grpc.ServiceDesc {
	desc := pluginapi.DevicePlugin_ServiceDesc
	desc.Methods = slices.Clone(desc.Methods)
	for i := range desc.Methods {
		if desc.Methods[i].MethodName == "GetPreferredAllocation" {
			desc.Methods[i].Handler = func(_ any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
				return s.preferred(ctx, decode)
			}
		}
	}
	return &desc
}

// GetDevicePluginOptions returns which optional calls the Server answers.
func (s *Server) GetDevicePluginOptions(context.Context, *pluginapi.Empty) (*pluginapi.DevicePluginOptions, error) {
	return options(), nil
}

func options() *pluginapi.DevicePluginOptions {
	return &pluginapi.DevicePluginOptions{GetPreferredAllocationAvailable: true}
}

// ListAndWatch sends the devices, and again whenever they change.
func (s *Server) ListAndWatch(_ *pluginapi.Empty, to grpc.ServerStreamingServer[pluginapi.ListAndWatchResponse]) error {
	ctx, stream := to.Context(), s.registration.open()
	defer s.registration.close(stream)
	for {
		st, changed := s.feed.get()
		if err := to.SendMsg(st.list); err != nil {
			return fmt.Errorf("send devices of %s: %w", s.cfg.Resource, err)
		}
		s.registration.sent(stream, st.number)
		select {
		case <-changed:
		case <-stream.over:
			return nil
		case <-ctx.Done():
			return nil
		}
	}
}

// linksLimit is how long a request waits for the links of the GPUs. The kubelet starts no
// other pod meanwhile. NVML reads those of 8 GPUs in 40 ms if each call takes 100 µs.
const linksLimit = time.Second

// linked returns the newest state. If the answer depends on the links of the GPUs, it
// waits until they are known; a driver that does not answer costs only their part in the
// choice.
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

// preferred answers GetPreferredAllocation: which of the free devices fit best together.
func (s *Server) preferred(ctx context.Context, decode func(any) error) (*pluginapi.PreferredAllocationResponse, error) {
	st := s.linked(ctx)
	req := wire.NewPreferredRequest(st.allocator)
	if err := decode(req); err != nil {
		return nil, err
	}
	resp, err := req.Answer()
	if err != nil {
		return nil, fmt.Errorf("choose devices of %q: %w", s.cfg.Resource, err)
	}
	return resp, nil
}

// Allocate answers with what each container needs to use its devices.
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
		answer, err := st.allocator.Allocate(c.GetDevicesIds(), newToken())
		if err != nil {
			return nil, fmt.Errorf("invalid allocation request for %q: %w", s.cfg.Resource, err)
		}
		resp.ContainerResponses = append(resp.ContainerResponses, answer)
	}
	return resp, nil
}

// newToken returns what makes the CDI annotation of a container unique: a random UUID,
// as in NVIDIA's device plugin. The usual library for UUIDs links database/sql, which is
// a lot for these lines.
func newToken() string {
	var b [16]byte
	_, _ = rand.Read(b[:])  // it never fails, see its documentation
	b[6] = b[6]&0x0f | 0x40 // version 4
	b[8] = b[8]&0x3f | 0x80 // variant of RFC 9562
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
