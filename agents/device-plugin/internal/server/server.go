// Package server is the edge to the kubelet: it serves one resource over the
// device plugin API and keeps it registered.
//
// What it serves is published to it as a value; every open ListAndWatch stream
// takes the newest one at its own pace, so a slow reader delays nobody.
package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"outrigger.dev/agents/device-plugin/internal/allocate"
	"outrigger.dev/pkg/resource"
)

// Recorder takes note of what a Server does.
type Recorder interface {
	Registered(resource string, err error)
	Allocated(resource string, took time.Duration, err error)
}

// Config says what a Server serves, and where.
type Config struct {
	// Resource is the fully qualified name, for example "nvidia.com/gpu".
	Resource string
	// KubeletSocket is the kubelet's registration socket; the Server's own
	// socket lies beside it.
	KubeletSocket string
	// Register is false for a Server that only serves.
	Register bool
	Recorder Recorder
	// Changed is called from any goroutine after Status may have changed. It
	// must not block.
	Changed func()
	Log     *slog.Logger
}

// Status says how far the kubelet knows of the resource.
type Status struct {
	// Serving is set while the socket takes calls.
	Serving bool
	// Registered is set while the kubelet's present socket is the one that
	// took the registration.
	Registered bool
	// Listed is set while a stream is open to which the devices were sent.
	Listed bool
}

// Server serves one resource.
type Server struct {
	pluginapi.UnimplementedDevicePluginServer
	cfg  Config
	path string
	feed feed
	wake chan struct{}
	// left is how many replicas Publish has left out. It belongs to the caller
	// of Publish.
	left int

	mu     sync.Mutex
	status Status
	// streams are the calls of ListAndWatch that were sent a list, each with the
	// number of the newest.
	streams map[*cursor]uint64
	// leaving is set while the resource is gone, and leaveBy is how long the
	// kubelet may take to hear of it. Once it has, the Server is gone too.
	leaving, gone bool
	leaveBy       time.Time
	// ended is when the last stream ended.
	ended time.Time
	// over is closed to end the streams that are open.
	over chan struct{}
}

var _ pluginapi.DevicePluginServer = (*Server)(nil)

// New returns a Server; it does nothing before Run.
func New(cfg Config) *Server {
	return &Server{
		cfg:     cfg,
		path:    filepath.Join(filepath.Dir(cfg.KubeletSocket), SocketName(cfg.Resource)),
		feed:    newFeed(),
		wake:    make(chan struct{}, 1),
		streams: map[*cursor]uint64{},
		over:    make(chan struct{}),
	}
}

// SocketName returns the name that NVIDIA's device plugin gives the socket of
// a resource: "nvidia-gpu.sock" for "nvidia.com/gpu".
func SocketName(res string) string {
	return "nvidia-" + res[strings.LastIndex(res, "/")+1:] + ".sock"
}

// Publish makes r what is served from now on, as far as it fits in a list, also
// after Leave. It returns false, and does nothing, if it is too late for that,
// since Run is about to end. It does not block. One goroutine calls it.
func (s *Server) Publish(r resource.Resource, opts allocate.Options) bool {
	if !s.stay() {
		return false
	}
	fits, left := Fit(r)
	if left > 0 && left != s.left {
		s.cfg.Log.Warn("too many replicas for the kubelet, offering fewer: configure fewer for the resource",
			"resource", s.cfg.Resource, "left_out", left, "max_bytes", MaxListBytes)
	}
	s.left = left
	s.feed.put(fits, opts)
	return true
}

// Wake has the sockets checked now: call it when one of them came or went.
func (s *Server) Wake() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Status returns how far the kubelet knows of the resource at this moment.
func (s *Server) Status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.status
}

// Run serves and registers until ctx ends. Then it ends every stream and
// removes its socket.
func (s *Server) Run(ctx context.Context) error {
	k := &keeper{server: s, grpc: grpc.NewServer(serverOptions()...), log: s.cfg.Log}
	k.grpc.RegisterService(s.service(), s)
	err := k.run(ctx)
	s.update(func(st *Status) { *st = Status{} })
	if err != nil {
		return fmt.Errorf("serve %s at %s: %w", s.cfg.Resource, s.path, err)
	}
	return nil
}

// serverOptions let a request come in one go: one for preferred devices names
// what a list has, for which the usual window of 64 KiB would be asked for again
// and again. A window is a limit, no memory; buffers are held only while something
// is read or written.
func serverOptions() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.ForceServerCodecV2(newCodec()),
		grpc.StaticStreamWindowSize(MaxListBytes),
		grpc.StaticConnWindowSize(MaxListBytes),
	}
}

// GetDevicePluginOptions tells the kubelet which calls are worth making.
func (s *Server) GetDevicePluginOptions(context.Context, *pluginapi.Empty) (*pluginapi.DevicePluginOptions, error) {
	return options(), nil
}

func options() *pluginapi.DevicePluginOptions {
	return &pluginapi.DevicePluginOptions{GetPreferredAllocationAvailable: true}
}

// ListAndWatch sends the devices, and again whenever they change.
func (s *Server) ListAndWatch(_ *pluginapi.Empty, stream grpc.ServerStreamingServer[pluginapi.ListAndWatchResponse]) error {
	ctx, c := stream.Context(), &cursor{}
	s.mu.Lock()
	c.over = s.over
	s.mu.Unlock()
	defer s.closed(c)
	for {
		st, changed := s.feed.get()
		if err := stream.SendMsg(st.list); err != nil {
			return fmt.Errorf("send devices of %s: %w", s.cfg.Resource, err)
		}
		s.sent(c, st.number)
		select {
		case <-changed:
		case <-c.over:
			return nil
		case <-ctx.Done():
			return nil
		}
	}
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

// update changes the status under the lock and tells if it did.
func (s *Server) update(change func(*Status)) {
	s.mu.Lock()
	before := s.status
	change(&s.status)
	changed := s.status != before
	s.mu.Unlock()
	if changed {
		s.cfg.Changed()
	}
}

var errForeign = errors.New("another device plugin has taken the socket: stop it, or this one")
