package plugin_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"gotest.tools/v3/assert"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"outrigger.dev/agents/device-plugin/internal/inventory"
	"outrigger.dev/agents/device-plugin/internal/metrics"
	"outrigger.dev/agents/device-plugin/internal/plugin"
	"outrigger.dev/agents/device-plugin/internal/server"
	"outrigger.dev/agents/device-plugin/kubelettest"
	"outrigger.dev/pkg/agent/agenttest"
	"outrigger.dev/pkg/cause"
	"outrigger.dev/pkg/config"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/gputest"
	"outrigger.dev/pkg/health"
)

// marker records what is published on the node.
type marker struct {
	mu      sync.Mutex
	ready   bool
	changed chan struct{}
}

func (m *marker) set(ready bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ready = ready
	close(m.changed)
	m.changed = make(chan struct{})
}

func (m *marker) wait(t *testing.T, want bool) {
	t.Helper()
	for {
		m.mu.Lock()
		ready, changed := m.ready, m.changed
		m.mu.Unlock()
		if ready == want {
			return
		}
		select {
		case <-t.Context().Done():
			t.Fatal("test ended")
		case <-time.After(5 * time.Minute):
			t.Fatalf("ready is %v for a minute, want %v", ready, want)
		case <-changed:
		}
	}
}

// rig is a plugin on a fake node, with a kubelet.
type rig struct {
	source  *gputest.Fake
	kubelet *kubelettest.Kubelet
	inv     *inventory.Inventory
	plugin  *plugin.Plugin
	marker  *marker
	changes chan struct{}
	sockets chan struct{}
	reports *reports
	// config is that of the start.
	config config.Config
	dir    string
	ended  chan error
	stop   context.CancelFunc
}

func newRig(t *testing.T, n int, change func(*inventory.Config)) *rig {
	t.Helper()
	dir := agenttest.ShortDir(t)
	r := &rig{
		source:  gputest.New(gputest.Node(gputest.A100, n)),
		kubelet: kubelettest.New(dir),
		marker:  &marker{changed: make(chan struct{})},
		reports: &reports{all: make(chan inventory.Report, 1000)},
		changes: make(chan struct{}, 1),
		sockets: make(chan struct{}, 1),
		dir:     dir,
		ended:   make(chan error, 1),
	}
	rules, _ := health.ParseRules("", "")
	recorder := metrics.New("outrigger_device_plugin")
	cfg := inventory.Config{
		Config: config.Config{
			ListStrategies: []config.ListStrategy{config.ListEnvvar}, IDStrategy: config.IDUUID,
			KubeletSocket: r.kubelet.Socket(), Register: true,
		},
		Rules:        rules,
		Source:       r.source,
		Preparer:     preparer(func(*gpu.Node) (inventory.Prepared, error) { return inventory.Prepared{DevRoot: "/"}, nil }),
		WatchChanges: forward(r.changes),
		Recorder:     recorder,
		Log:          slog.New(slog.DiscardHandler),
	}
	if change != nil {
		change(&cfg)
	}
	cfg.Reporter, r.config = r.reports, cfg.Config
	r.inv = inventory.New(cfg)
	r.plugin = plugin.New(plugin.Config{
		Inventory:     r.inv,
		KubeletSocket: cfg.Config.KubeletSocket,
		Register:      cfg.Config.Register,
		WatchSockets:  func(ctx context.Context, changed func()) { _ = forward(r.sockets)(ctx, changed) },
		Recorder:      recorder,
		Ready:         func(n *gpu.Node) { r.marker.set(n != nil) },
		Log:           cfg.Log,
	})
	return r
}

// reload is what SIGHUP does.
func (r *rig) reload() {
	r.inv.Reload()
	r.plugin.Wake()
}

// reports keeps what was reported.
type reports struct{ all chan inventory.Report }

func (r *reports) Report(x inventory.Report) { r.all <- x }

// reported waits for a report of this kind and reason.
func (r *rig) reported(t *testing.T, kind cause.Code, reason string) inventory.Report {
	t.Helper()
	for end := agenttest.Deadline(t); ; {
		select {
		case x := <-r.reports.all:
			if x.Kind == kind && x.Reason == reason {
				return x
			}
		case <-end.Done():
			t.Fatalf("no report %s: %s", kind, reason)
		}
	}
}

// preparer is a Preparer that has nothing to scan.
type preparer func(*gpu.Node) (inventory.Prepared, error)

func (p preparer) Scan(config.Config) func(*gpu.Node) (inventory.Prepared, error) { return p }
func (preparer) Outdated() bool                                                   { return false }
func (preparer) Watched() []string                                                { return nil }

// preparing is a Preparer that minds the config.
type preparing func(config.Config, *gpu.Node) (inventory.Prepared, error)

func (p preparing) Scan(c config.Config) func(*gpu.Node) (inventory.Prepared, error) {
	return func(n *gpu.Node) (inventory.Prepared, error) { return p(c, n) }
}

func (preparing) Outdated() bool    { return false }
func (preparing) Watched() []string { return nil }

// forward makes a watch of a channel.
func forward(c <-chan struct{}) func(context.Context, func()) error {
	return func(ctx context.Context, changed func()) error {
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-c:
				changed()
			}
		}
	}
}

// runAll runs inventory and plugin until ctx ends, or one of them.
func (r *rig) runAll(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return r.inv.Run(ctx) })
	g.Go(func() error { return r.plugin.Run(ctx) })
	return g.Wait()
}

func (r *rig) run(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	r.stop = cancel
	go func() { r.ended <- r.runAll(ctx) }()
	t.Cleanup(func() {
		r.end(t)
		r.kubelet.Stop()
	})
}

// end stops the plugin and waits for it.
func (r *rig) end(t *testing.T) {
	t.Helper()
	if r.ended == nil {
		return
	}
	r.stop()
	select {
	case err := <-r.ended:
		if err != nil && t.Context().Err() == nil {
			t.Errorf("Run: %v", err)
		}
	case <-time.After(5 * time.Minute):
		t.Error("Run has not returned a minute after its context ended")
	}
	r.ended = nil
}

func (r *rig) startKubelet(t *testing.T) {
	t.Helper()
	assert.NilError(t, r.kubelet.Start())
	r.sockets <- struct{}{}
}

// otherPlugin puts a socket of another plugin, a file that says so, in the place
// of this one's, and returns its path. There is no moment without either.
func (r *rig) otherPlugin(t *testing.T) string {
	t.Helper()
	other := filepath.Join(r.dir, "other")
	assert.NilError(t, os.WriteFile(other, []byte("other"), 0o600))
	path := filepath.Join(r.dir, "nvidia-gpu.sock")
	assert.NilError(t, os.Rename(other, path))
	r.sockets <- struct{}{}
	return path
}

// healths waits until the kubelet's list of whole GPUs has these healths.
func (r *rig) healths(t *testing.T, want ...string) kubelettest.Update {
	t.Helper()
	return r.devices(t, resourceName, want...)
}

// devices waits until the kubelet's list of the resource has these healths, in
// order.
func (r *rig) devices(t *testing.T, resource string, want ...string) kubelettest.Update {
	t.Helper()
	u, err := r.kubelet.WaitDevices(agenttest.Deadline(t), resource, func(ds []*pluginapi.Device) bool {
		got := make([]string, 0, len(ds))
		for _, d := range ds {
			got = append(got, d.GetHealth())
		}
		return slices.Equal(want, got)
	})
	assert.NilError(t, err, "want %v", want)
	return u
}

// gone waits until the socket of the resource is gone.
func (r *rig) gone(t *testing.T, resource string) {
	t.Helper()
	agenttest.Poll(t, "the end of the socket of "+resource, func() bool {
		_, err := os.Lstat(filepath.Join(r.dir, server.SocketName(resource)))
		return errors.Is(err, fs.ErrNotExist)
	})
}

// withdrawn waits until the kubelet has no devices of the resource, and no
// plugin for it.
func (r *rig) withdrawn(t *testing.T, resource string) {
	t.Helper()
	assert.NilError(t, r.kubelet.WaitWithdrawn(agenttest.Deadline(t), resource))
	r.gone(t, resource)
}

// watched waits until the events are watched, and the node was read.
func (r *rig) watched(t *testing.T) {
	t.Helper()
	err := r.source.WaitCalls(agenttest.Deadline(t), func(c gputest.Calls) bool { return c.Watch > 0 && c.Snapshot > 0 })
	assert.NilError(t, err)
}

const (
	ok  = pluginapi.Healthy
	bad = pluginapi.Unhealthy
)

func id(i int) string { return fmt.Sprintf("GPU-00000000-0000-4000-8000-%012x", i) }
