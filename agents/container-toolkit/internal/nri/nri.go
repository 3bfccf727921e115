// Package nri gives containers their GPUs through NRI, the plugin interface of containerd and
// CRI-O. While the engine creates a container, the Plugin adds the GPUs that the kubelet
// allocated to the container, as the CDI specs of the node describe them. It does not add a GPU
// that is named only in annotations, variables or the image.
package nri

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/containerd/nri/pkg/api"
	"github.com/containerd/nri/pkg/stub"

	"outrigger.dev/agents/container-toolkit/internal/inject"
	"outrigger.dev/agents/container-toolkit/internal/toolconfig"
	"outrigger.dev/pkg/hostfs"
	"outrigger.dev/pkg/pace"
	"outrigger.dev/pkg/podresources"
	"outrigger.dev/pkg/reconcile"
)

// Name is the name of the plugin. Administrators use it in required_plugins of the engine's
// default validator.
const Name = "nvidia-container-toolkit"

const (
	// retryFirst and retryMost are pauses between attempts to connect. The plugin does not
	// wait for an engine that starts: the change of its socket causes an attempt.
	retryFirst, retryMost = 100 * time.Millisecond, 5 * time.Second
	// endLimit limits the time from the end of a connection to the end of its session.
	endLimit = 2 * time.Second
)

var errEnded = errors.New("the container engine closed the connection to the NRI plugin")

// Config describes a Plugin.
type Config struct {
	// Index is the index of the plugin, "00" to "99". Engines call plugins in ascending order.
	Index string
	// Socket is the socket of the engine's NRI, as this process sees it.
	Socket string
	// Kubelet returns the devices that are allocated to the containers of a pod. Run closes it.
	Kubelet *podresources.Client
	// Tools is the config of the tools. The plugin uses the same sections as the mode cdi.
	Tools *toolconfig.Config
	// Kind is the kind of the CDI devices. Folder contains their specs.
	Kind, Folder string
	// Stat returns a device node of the host, without following a link.
	Stat func(path string) (inject.Node, error)
	// Report is called with nil when the engine begins to call the plugin, and with the
	// cause when the engine does not call it.
	Report func(error)
	Log    *slog.Logger
}

// Plugin is the plugin.
type Plugin struct {
	Config
	tools toolconfig.Config
}

// New returns a Plugin. It does nothing before Run.
func New(c Config) *Plugin {
	p := &Plugin{Config: c, tools: *c.Tools}
	// The plugin makes a request for each container, which names only allocated devices.
	p.tools.AcceptVariable, p.tools.AcceptMounts, p.tools.SwarmResources = true, false, nil
	p.tools.Runtime.Mode = toolconfig.ModeCDI
	p.tools.Runtime.CDI.DefaultKind, p.tools.Runtime.CDI.SpecDirs = c.Kind, []string{c.Folder}
	return p
}

// Run serves the engine until ctx ends, and connects again when the engine has restarted.
func (p *Plugin) Run(ctx context.Context) error {
	away := func(err error) {
		p.Log.Warn("the container engine sends no requests to the nri plugin, connecting again", "err", err)
	}
	loop := reconcile.New(reconcile.Config{
		Name: Name, Log: slog.New(slog.DiscardHandler), // session logs the connection
		Retry:  pace.Backoff{First: retryFirst, Most: retryMost},
		Failed: func(err error, _ time.Duration) { away(err) },
		Step: func(ctx context.Context) (reconcile.Result, error) {
			asked, err := p.session(ctx)
			if ctx.Err() != nil {
				return reconcile.Result{}, err
			}
			p.Report(err)
			if asked {
				away(err)
				return reconcile.Result{After: retryFirst, Pending: err}, nil
			}
			return reconcile.Result{}, err
		},
	})
	var watching sync.WaitGroup
	watching.Go(func() { hostfs.Watch(ctx, p.Log, loop.Wake, p.Socket) })
	defer watching.Wait()
	return errors.Join(loop.Run(ctx), p.Kubelet.Close())
}

// session serves the engine until the connection ends. It returns whether the engine has called
// the plugin, and why the connection ended.
func (p *Plugin) session(ctx context.Context) (asked bool, err error) {
	raw, err := (&net.Dialer{}).DialContext(ctx, "unix", p.Socket)
	if err != nil {
		return false, fmt.Errorf("connect to the container engine's NRI: %w: it needs containerd 2.0 or later, containerd 1.7 with NRI turned on, or CRI-O with enable_nri; --nri-socket names its socket", err)
	}
	c := &conn{Conn: raw, ended: make(chan struct{})}
	defer func() { _ = c.Close() }()
	h := &handler{Plugin: p}
	s, err := stub.New(h, stub.WithPluginName(Name), stub.WithPluginIdx(p.Index), stub.WithConnection(c), stub.WithLogger(stubLog{p.Log}))
	if err != nil {
		return false, fmt.Errorf("create the NRI plugin: %w", err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	select {
	case err = <-done:
	case <-c.ended:
		err = p.await(done)
	case <-ctx.Done():
		_ = c.Close()
		err = p.await(done)
	}
	if err == nil || h.asked.Load() {
		err = errEnded
	}
	return h.asked.Load(), err
}

// await waits for the end of a stub whose connection has ended. If the engine ends between the
// registration and the configuration of the plugin, the stub never ends.
func (p *Plugin) await(done <-chan error) error {
	limit := time.NewTimer(endLimit)
	defer limit.Stop()
	select {
	case err := <-done:
		return err
	case <-limit.C:
		return errEnded
	}
}

// conn is a connection that closes the channel ended after an error of Read.
type conn struct {
	net.Conn
	once  sync.Once
	ended chan struct{}
}

func (c *conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if err != nil {
		c.once.Do(func() { close(c.ended) })
	}
	return n, err
}

// stubLog logs messages of the library at the level debug. Run reports the errors.
type stubLog struct{ log *slog.Logger }

func (l stubLog) message(ctx context.Context, format string, args []any) {
	if l.log.Enabled(ctx, slog.LevelDebug) {
		l.log.DebugContext(ctx, "message of the nri library", "message", fmt.Sprintf(format, args...))
	}
}

func (l stubLog) Debugf(ctx context.Context, format string, args ...any) {
	l.message(ctx, format, args)
}

func (l stubLog) Infof(ctx context.Context, format string, args ...any) { l.message(ctx, format, args) }

func (l stubLog) Warnf(ctx context.Context, format string, args ...any) { l.message(ctx, format, args) }

func (l stubLog) Errorf(ctx context.Context, format string, args ...any) {
	l.message(ctx, format, args)
}

// CheckIndex returns an error unless index is a plugin's index.
func CheckIndex(index string) error { return api.CheckPluginIndex(index) }
