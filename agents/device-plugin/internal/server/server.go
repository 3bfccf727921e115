// Package server is the edge to the kubelet: it serves one resource over the device
// plugin API and keeps it registered.
//
// The resource is published to a Server as a value. Each open ListAndWatch stream sends
// the newest one at its own pace, so a slow reader delays no one. What the kubelet knows
// is in one place, the registration; the keeper acts on it.
package server

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"time"

	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"outrigger.dev/agents/device-plugin/internal/allocate"
	"outrigger.dev/pkg/pace"
	"outrigger.dev/pkg/reconcile"
	"outrigger.dev/pkg/resource"
)

// Recorder records what a Server does.
type Recorder interface {
	Registered(resource string, err error)
	Allocated(resource string, took time.Duration, err error)
}

// Config says what a Server serves, and where.
type Config struct {
	// Resource is the fully qualified name, for example "nvidia.com/gpu".
	Resource string
	// KubeletSocket is the kubelet's registration socket. The Server's own socket is
	// in the same folder.
	KubeletSocket string
	// Register is false for a Server that only serves.
	Register bool
	Recorder Recorder
	// WaitLinks returns once the published options have the links of the GPUs, or when
	// ctx ends. It is nil if they always have them.
	WaitLinks func(ctx context.Context)
	// Changed is called from any goroutine after the Status changed. It must not
	// block.
	Changed func()
	Log     *slog.Logger
}

// Server serves one resource.
type Server struct {
	pluginapi.UnimplementedDevicePluginServer
	cfg          Config
	path         string
	feed         feed
	registration *registration
	keeper       *keeper
	loop         *reconcile.Loop
}

// New returns a Server. It does nothing before Run.
func New(cfg Config) *Server {
	s := &Server{
		cfg:  cfg,
		path: filepath.Join(filepath.Dir(cfg.KubeletSocket), SocketName(cfg.Resource)),
		feed: newFeed(),
	}
	k := &keeper{server: s, log: cfg.Log, crashed: make(chan error, 1)}
	s.keeper, s.loop = k, reconcile.New(reconcile.Config{
		Name: "server of " + cfg.Resource, Step: k.step,
		Retry: pace.Backoff{First: retryMin, Most: retryMax}, Eager: true,
		// The keeper logs its errors itself, when they last.
		Failed: func(error, time.Duration) {}, Log: slog.New(slog.DiscardHandler),
	})
	s.registration = newRegistration(cfg.Changed, s.loop.Wake)
	return s
}

// SocketName returns the name that NVIDIA's device plugin gives the socket of a
// resource: "nvidia-gpu.sock" for "nvidia.com/gpu".
func SocketName(res string) string {
	return "nvidia-" + res[strings.LastIndex(res, "/")+1:] + ".sock"
}

// Publish serves r from now on, also after Leave. It returns false, and does nothing, if Run
// is about to end. It does not block. One goroutine calls Publish and Leave.
func (s *Server) Publish(r resource.Resource, opts allocate.Options) bool {
	if !s.registration.cancelWithdrawal() {
		return false
	}
	s.feed.put(r, opts)
	return true
}

// Withdraw withdraws the resource: it sends the kubelet a list without devices, so that
// the kubelet counts none from then on, and then Run ends. It does not block.
func (s *Server) Withdraw() {
	if !s.registration.isAdvertising() {
		return
	}
	s.feed.put(resource.Resource{Name: s.cfg.Resource}, allocate.Options{})
	s.registration.withdraw()
}

// Wake makes the Server check its sockets now. Call it when one of them changed.
func (s *Server) Wake() { s.loop.Wake() }

// Status returns how far the kubelet knows the resource at this moment.
func (s *Server) Status() Status { return s.registration.currentStatus() }

// Run serves and registers until ctx ends. Then it ends all streams and removes its
// socket.
func (s *Server) Run(ctx context.Context) error {
	err := s.keeper.run(ctx)
	s.registration.stop()
	if err != nil {
		return fmt.Errorf("serve %s at %s: %w", s.cfg.Resource, s.path, err)
	}
	return nil
}
