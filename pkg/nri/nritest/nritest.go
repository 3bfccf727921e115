// Package nritest runs a container engine that calls NRI plugins, for tests. It uses the
// code that containerd and CRI-O link.
package nritest

import (
	"context"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/containerd/nri/pkg/adaptation"
	"github.com/containerd/nri/pkg/api"
	validator "github.com/containerd/nri/plugins/default-validator"
)

// Engine is a container engine.
type Engine struct {
	*adaptation.Adaptation
	listener net.Listener
	ctx      context.Context
	end      context.CancelFunc
	passing  sync.WaitGroup

	mu      sync.Mutex
	plugins int
	changed chan struct{}
}

// Start starts an engine with an NRI socket, until the test ends. All containers need the
// required plugins.
func Start(t testing.TB, socket string, required ...string) *Engine {
	t.Helper()
	return StartWith(t, socket, nil, required...)
}

// StartWith starts an engine as Start does. The engine runs containers in pods with the same
// names, in the namespace "ns".
func StartWith(t testing.TB, socket string, running []*api.Container, required ...string) *Engine {
	t.Helper()
	e := &Engine{changed: make(chan struct{}, 1)}
	e.ctx, e.end = context.WithCancel(context.WithoutCancel(t.Context()))
	inner := filepath.Join(t.TempDir(), "nri.sock")
	if err := os.MkdirAll(filepath.Dir(socket), 0o700); err != nil {
		t.Fatal(err)
	}
	synchronize := func(ctx context.Context, plugin adaptation.SyncCB) error {
		var pods []*api.PodSandbox
		for _, c := range running {
			c.Id, c.PodSandboxId = "container-"+c.GetName(), "pod-"+c.GetName()
			pods = append(pods, &api.PodSandbox{Id: c.GetPodSandboxId(), Namespace: "ns", Name: c.GetName()})
		}
		_, err := plugin(ctx, pods, running)
		return err
	}
	update := func(context.Context, []*api.ContainerUpdate) ([]*api.ContainerUpdate, error) { return nil, nil }
	var err error
	e.Adaptation, err = adaptation.New("containerd", "v2.4.2", synchronize, update,
		adaptation.WithSocketPath(inner), adaptation.WithPluginPath(t.TempDir()), adaptation.WithPluginConfigPath(t.TempDir()), adaptation.WithMetrics(e),
		adaptation.WithDefaultValidator(&validator.DefaultValidatorConfig{Enable: true, RequiredPlugins: required}))
	if err == nil {
		err = e.Adaptation.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	e.listener, err = (&net.ListenConfig{}).Listen(t.Context(), "unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	e.passing.Go(func() { e.accept(inner) })
	t.Cleanup(e.Stop)
	return e
}

// accept forwards connections to the socket of the library. The library does not close them when
// it stops, but the end of a real engine's process does.
func (e *Engine) accept(inner string) {
	for {
		outer, err := e.listener.Accept()
		if err != nil {
			return
		}
		conn, err := (&net.Dialer{}).DialContext(e.ctx, "unix", inner)
		if err != nil {
			_ = outer.Close()
			continue
		}
		context.AfterFunc(e.ctx, func() { _, _ = outer.Close(), conn.Close() })
		for _, ends := range [][2]net.Conn{{outer, conn}, {conn, outer}} {
			e.passing.Go(func() {
				_, _ = io.Copy(ends[0], ends[1])
				_ = ends[0].Close()
			})
		}
	}
}

// Stop ends the engine and its connections.
func (e *Engine) Stop() {
	e.end()
	_ = e.listener.Close()
	e.passing.Wait()
	e.Adaptation.Stop()
}

// Await waits until the engine has a plugin.
func (e *Engine) Await(t testing.TB) {
	t.Helper()
	for {
		e.mu.Lock()
		plugins := e.plugins
		e.mu.Unlock()
		if plugins > 0 {
			return
		}
		select {
		case <-e.changed:
		case <-t.Context().Done():
			t.Fatal("the plugin did not connect")
		}
	}
}

// Create calls the plugins for a container of a pod, and returns the adjustment.
func (e *Engine) Create(ctx context.Context, namespace, pod string, c *api.Container) (*api.ContainerAdjustment, error) {
	c.Id = "0123456789abcdef"
	answer, err := e.CreateContainer(ctx, &api.CreateContainerRequest{
		Pod: &api.PodSandbox{Id: "fedcba9876543210", Uid: "1-2-3", Namespace: namespace, Name: pod}, Container: c,
	})
	return answer.GetAdjust(), err
}

// UpdatePluginCount records the number of plugins, without the engine's own validator.
func (e *Engine) UpdatePluginCount(count int) {
	e.mu.Lock()
	e.plugins = count - 1
	e.mu.Unlock()
	select {
	case e.changed <- struct{}{}:
	default:
	}
}

// RecordPluginInvocation ignores an invocation.
func (*Engine) RecordPluginInvocation(_, _ string, _ error) {}

// RecordPluginLatency ignores a latency.
func (*Engine) RecordPluginLatency(_, _ string, _ time.Duration) {}

// RecordPluginAdjustments ignores adjustments.
func (*Engine) RecordPluginAdjustments(_, _ string, _ *api.ContainerAdjustment, _, _ int) {}
