// Package server communicates with the kubelet: it serves one resource over the device
// plugin API, and keeps it registered.
//
// Callers publish the resource to a Server as a value. Each open ListAndWatch stream sends the
// newest value at its own pace, so that a slow reader does not delay others. The registration
// has the state of the resource at the kubelet, and the keeper acts on it.
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

// Recorder records the registrations and allocations of a Server.
type Recorder interface {
	Registered(resource string, err error)
	Allocated(resource string, took time.Duration, err error)
}

// Config configures a Server.
type Config struct {
	// Resource is the fully qualified name, for example "nvidia.com/gpu".
	Resource string
	// KubeletSocket is the kubelet's registration socket. The Server's own socket is
	// in the same folder.
	KubeletSocket string
	// Register is false for a Server that only serves.
	Register bool
	Recorder Recorder
	// WaitLinks returns once the published options have the links of the GPUs, or when ctx
	// ends. It is nil if the options always have the links.
	WaitLinks func(ctx context.Context)
	// Changed is called after each change of the Status, from any goroutine. It must not
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
		// The keeper itself logs errors that last.
		Failed: func(error, time.Duration) {}, Log: slog.New(slog.DiscardHandler),
	})
	s.registration = newRegistration(cfg.Changed, s.loop.Wake)
	return s
}

// SocketName returns the name of the socket of a resource, as in NVIDIA's device plugin:
// "nvidia-gpu.sock" for "nvidia.com/gpu".
func SocketName(res string) string {
	return "nvidia-" + res[strings.LastIndex(res, "/")+1:] + ".sock"
}

// Publish serves r from now on, and cancels a Withdraw. It returns false and does nothing if Run
// is about to end. It does not block. Only one goroutine may call Publish and Withdraw.
func (s *Server) Publish(r resource.Resource, opts allocate.Options) bool {
	if !s.registration.cancelWithdrawal() {
		return false
	}
	s.feed.put(r, opts)
	return true
}

// Withdraw withdraws the resource: it sends the kubelet a list without devices, so that the
// kubelet no longer counts any. Then Run ends. It does not block.
func (s *Server) Withdraw() {
	if !s.registration.isAdvertising() {
		return
	}
	s.feed.put(resource.Resource{Name: s.cfg.Resource}, allocate.Options{})
	s.registration.withdraw()
}

// Wake makes the Server check its sockets now. Call it when a socket has changed.
func (s *Server) Wake() { s.loop.Wake() }

// Status returns the current Status.
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
