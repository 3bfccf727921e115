// Package nri connects a plugin to NRI, the plugin interface of containerd and CRI-O, and connects it again
// after the engine has restarted.
package nri

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/containerd/nri/pkg/api"
	"github.com/containerd/nri/pkg/stub"

	"outrigger.dev/pkg/hostfs"
	"outrigger.dev/pkg/pace"
	"outrigger.dev/pkg/reconcile"
)

const (
	// Socket is the socket of the engine's NRI.
	Socket = "/var/run/nri/nri.sock"
	// retryFirst and retryMost are pauses between attempts to connect. The plugin does not
	// wait for an engine that starts: the change of its socket causes an attempt.
	retryFirst, retryMost = 100 * time.Millisecond, 5 * time.Second
	// endLimit limits the time from the end of a connection to the end of its session.
	endLimit = 2 * time.Second
)

var errEnded = errors.New("the container engine closed the connection to the NRI plugin")

// Config describes a plugin.
type Config struct {
	// Name is the name of the plugin, and Index its index, "00" to "99". Engines call plugins in ascending order.
	Name, Index string
	// Socket is the socket of the engine's NRI, as this process sees it.
	Socket string
	// Plugin returns the handler of the requests of a session. It embeds the Session.
	Plugin func(*Session) any
	// Report is called with nil when the engine begins to call the plugin, and with the
	// cause when the engine does not call it.
	Report func(error)
	Log    *slog.Logger
}

// Session handles the first requests of an engine.
type Session struct {
	cfg   *Config
	asked atomic.Bool
}

// Configure is the first request of an engine.
func (s *Session) Configure(_ context.Context, _, engine, version string) (api.EventMask, error) {
	s.cfg.Log.Info("nri plugin connected", "engine", engine, "engine_version", version)
	return 0, nil // all events with a handler
}

// Synchronize is the last request before the engine asks about containers. It changes no container.
func (s *Session) Synchronize(context.Context, []*api.PodSandbox, []*api.Container) ([]*api.ContainerUpdate, error) {
	s.asked.Store(true)
	s.cfg.Report(nil)
	return nil, nil
}

// Run serves the engine until ctx ends, and connects again when the engine has restarted.
func Run(ctx context.Context, cfg Config) error {
	away := func(err error) {
		cfg.Log.Warn("the container engine sends no requests to the nri plugin, connecting again", "err", err)
	}
	loop := reconcile.New(reconcile.Config{
		Name: cfg.Name, Log: slog.New(slog.DiscardHandler), // Session logs the connection
		Retry:  pace.Backoff{First: retryFirst, Most: retryMost},
		Failed: func(err error, _ time.Duration) { away(err) },
		Step: func(ctx context.Context) (reconcile.Result, error) {
			asked, err := serve(ctx, &cfg)
			if ctx.Err() != nil {
				return reconcile.Result{}, err
			}
			cfg.Report(err)
			if asked {
				away(err)
				return reconcile.Result{After: retryFirst, Pending: err}, nil
			}
			return reconcile.Result{}, err
		},
	})
	var watching sync.WaitGroup
	watching.Go(func() { hostfs.Watch(ctx, cfg.Log, loop.Wake, cfg.Socket) })
	defer watching.Wait()
	return loop.Run(ctx)
}

// serve serves the engine until the connection ends. It returns whether the engine has called
// the plugin, and why the connection ended.
func serve(ctx context.Context, cfg *Config) (asked bool, err error) {
	raw, err := (&net.Dialer{}).DialContext(ctx, "unix", cfg.Socket)
	if err != nil {
		return false, fmt.Errorf("connect to the container engine's NRI: %w: it needs containerd 2.0 or later, containerd 1.7 with NRI turned on, or CRI-O with enable_nri; --nri-socket names its socket", err)
	}
	c := &conn{Conn: raw, ended: make(chan struct{})}
	defer func() { _ = c.Close() }()
	session := &Session{cfg: cfg}
	s, err := stub.New(cfg.Plugin(session), stub.WithPluginName(cfg.Name), stub.WithPluginIdx(cfg.Index), stub.WithConnection(c), stub.WithLogger(stubLog{cfg.Log}))
	if err != nil {
		return false, fmt.Errorf("create the NRI plugin: %w", err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	select {
	case err = <-done:
	case <-c.ended:
		err = await(done)
	case <-ctx.Done():
		_ = c.Close()
		err = await(done)
	}
	if err == nil || session.asked.Load() {
		err = errEnded
	}
	return session.asked.Load(), err
}

// await waits for the end of a stub whose connection has ended. If the engine ends between the
// registration and the configuration of the plugin, the stub never ends.
func await(done <-chan error) error {
	limit := time.NewTimer(endLimit)
	defer limit.Stop()
	select {
	case err := <-done:
		return err
	case <-limit.C:
		return errEnded
	}
}

// CheckIndex returns an error unless index is a plugin's index.
func CheckIndex(index string) error { return api.CheckPluginIndex(index) }
