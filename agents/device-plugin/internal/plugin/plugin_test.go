package plugin_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"outrigger.dev/agents/device-plugin/internal/config"
	"outrigger.dev/agents/device-plugin/internal/health"
	"outrigger.dev/agents/device-plugin/internal/metrics"
	"outrigger.dev/agents/device-plugin/internal/plugin"
	"outrigger.dev/agents/device-plugin/kubelettest"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/gputest"
)

const resourceName = "nvidia.com/gpu"

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// marker remembers what the node was told.
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

func (m *marker) Ready(*gpu.Node) error { m.set(true); return nil }
func (m *marker) NotReady() error       { m.set(false); return nil }

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
		case <-time.After(10 * time.Second):
			t.Fatalf("ready is %v for 10 s, want %v", ready, want)
		case <-changed:
		}
	}
}

// rig is a plugin on a fake node, with a kubelet.
type rig struct {
	source  *gputest.Fake
	kubelet *kubelettest.Kubelet
	plugin  *plugin.Plugin
	marker  *marker
	changes chan struct{}
	sockets chan struct{}
	dir     string
	ended   chan error
	stop    context.CancelFunc
}

func newRig(t *testing.T, n int, change func(*plugin.Config)) *rig {
	t.Helper()
	// A socket's path may have 108 bytes; t.TempDir makes longer ones.
	dir, err := os.MkdirTemp("", "dp")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	r := &rig{
		source:  gputest.New(gputest.Node(gputest.A100, n)),
		kubelet: kubelettest.New(dir),
		marker:  &marker{changed: make(chan struct{})},
		changes: make(chan struct{}, 1),
		sockets: make(chan struct{}, 1),
		dir:     dir,
		ended:   make(chan error, 1),
	}
	rules, _ := health.ParseRules("", "")
	cfg := plugin.Config{
		Config: config.Config{
			ListStrategies: []config.ListStrategy{config.ListEnvvar}, IDStrategy: config.IDUUID,
			KubeletSocket: r.kubelet.Socket(), Register: true,
		},
		Rules:        rules,
		Source:       r.source,
		Preparer:     preparer(func(*gpu.Node) (plugin.Prepared, error) { return plugin.Prepared{DevRoot: "/"}, nil }),
		WatchChanges: forward(r.changes),
		WatchSockets: forward(r.sockets),
		Recorder:     metrics.New(),
		Marker:       r.marker,
		Log:          slog.New(slog.DiscardHandler),
	}
	if change != nil {
		change(&cfg)
	}
	r.plugin = plugin.New(cfg)
	return r
}

// preparer is a Preparer that has nothing to scan.
type preparer func(*gpu.Node) (plugin.Prepared, error)

func (p preparer) Scan() func(*gpu.Node) (plugin.Prepared, error) { return p }

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

func (r *rig) run(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	r.stop = cancel
	go func() { r.ended <- r.plugin.Run(ctx) }()
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
	case <-time.After(2 * time.Second):
		t.Error("Run has not returned 2 s after its context ended")
	}
	r.ended = nil
}

func (r *rig) startKubelet(t *testing.T) {
	t.Helper()
	if err := r.kubelet.Start(); err != nil {
		t.Fatal(err)
	}
	r.sockets <- struct{}{}
}

func limit(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(t.Context(), 10*time.Second, errors.New("not within 10 s"))
	t.Cleanup(cancel)
	return ctx
}

// healths waits until the kubelet's list has these healths, in order.
func (r *rig) healths(t *testing.T, want ...string) kubelettest.Update {
	t.Helper()
	u, err := r.kubelet.WaitDevices(limit(t), resourceName, func(ds []*pluginapi.Device) bool {
		got := make([]string, 0, len(ds))
		for _, d := range ds {
			got = append(got, d.GetHealth())
		}
		return slices.Equal(want, got)
	})
	if err != nil {
		t.Fatalf("want %v: %v", want, err)
	}
	return u
}

// watched waits until the events are watched, and the node was looked at after.
func (r *rig) watched(t *testing.T) {
	t.Helper()
	err := r.source.WaitCalls(limit(t), func(c gputest.Calls) bool { return c.Watch > 0 && c.Snapshot > 1 })
	if err != nil {
		t.Fatal(err)
	}
}

const (
	ok  = pluginapi.Healthy
	bad = pluginapi.Unhealthy
)

func id(i int) string { return fmt.Sprintf("GPU-00000000-0000-4000-8000-%012x", i) }

func TestOffersRegistersAndAnswers(t *testing.T) {
	r := newRig(t, 2, nil)
	r.startKubelet(t)
	r.run(t)
	r.marker.wait(t, true)
	if err := r.plugin.Ready(); err != nil {
		t.Errorf("Ready: %v", err)
	}
	u := r.healths(t, ok, ok)
	for i, d := range u.Devices {
		if d.GetID() != id(i) {
			t.Errorf("device %d is %s, want %s", i, d.GetID(), id(i))
		}
		if nodes := d.GetTopology().GetNodes(); len(nodes) != 1 || nodes[0].GetID() != 0 {
			t.Errorf("device %d has NUMA nodes %v, want node 0", i, nodes)
		}
	}
	reg := r.kubelet.Registrations()[0].Request
	if reg.GetEndpoint() != "nvidia-gpu.sock" || reg.GetVersion() != "v1beta1" || !reg.GetOptions().GetGetPreferredAllocationAvailable() {
		t.Errorf("registered as %v", reg)
	}
	resp, err := r.kubelet.Allocate(limit(t), resourceName, id(1), id(0))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := resp.GetEnvs()["NVIDIA_VISIBLE_DEVICES"], id(1)+","+id(0); got != want {
		t.Errorf("NVIDIA_VISIBLE_DEVICES is %q, want %q", got, want)
	}
	if _, err := r.kubelet.Allocate(limit(t), resourceName, "GPU-other"); err == nil {
		t.Error("an unknown device was allocated")
	}
}

func TestXIDReachesEveryStream(t *testing.T) {
	r := newRig(t, 2, nil)
	r.startKubelet(t)
	r.run(t)
	r.marker.wait(t, true)
	r.healths(t, ok, ok)
	r.watched(t)
	client, err := r.kubelet.Plugin(resourceName)
	if err != nil {
		t.Fatal(err)
	}
	// One more stream that reads, and one that never does.
	second, err := client.ListAndWatch(t.Context(), &pluginapi.Empty{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.ListAndWatch(t.Context(), &pluginapi.Empty{}); err != nil {
		t.Fatal(err)
	}
	if _, err := second.Recv(); err != nil {
		t.Fatal(err)
	}
	r.source.PostXID(gpu.UUID(id(0)), 31)
	r.source.PostXID(gpu.UUID(id(1)), 79)
	r.healths(t, ok, bad)
	list, err := second.Recv()
	if err != nil {
		t.Fatal(err)
	}
	if got := list.GetDevices()[1].GetHealth(); got != bad {
		t.Errorf("the second stream has device 1 as %s, want %s", got, bad)
	}
	if err := r.plugin.Ready(); err != nil {
		t.Errorf("Ready with one bad GPU: %v", err)
	}
}

func TestKubeletReturns(t *testing.T) {
	r := newRig(t, 1, nil)
	r.startKubelet(t)
	r.run(t)
	r.marker.wait(t, true)
	r.watched(t)
	before := r.source.Calls()
	for i := range 3 {
		r.kubelet.Stop()
		r.marker.wait(t, false)
		r.startKubelet(t)
		if _, err := r.kubelet.WaitRegistrations(limit(t), i+2); err != nil {
			t.Fatal(err)
		}
		r.healths(t, ok)
		r.marker.wait(t, true)
	}
	if diff := cmp.Diff(before, r.source.Calls()); diff != "" {
		t.Errorf("the driver was asked when the kubelet came back (-before +after):\n%s", diff)
	}
}

func TestOwnSocketIsMadeAgainWithoutDroppingStreams(t *testing.T) {
	r := newRig(t, 1, nil)
	r.startKubelet(t)
	r.run(t)
	r.marker.wait(t, true)
	client, err := r.kubelet.Plugin(resourceName)
	if err != nil {
		t.Fatal(err)
	}
	stream, err := client.ListAndWatch(t.Context(), &pluginapi.Empty{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(r.dir, "nvidia-gpu.sock")); err != nil {
		t.Fatal(err)
	}
	r.sockets <- struct{}{}
	if _, err := r.kubelet.WaitRegistrations(limit(t), 2); err != nil {
		t.Fatal(err)
	}
	r.healths(t, ok)
}

func TestSocketOfAnotherPluginIsLeftAlone(t *testing.T) {
	r := newRig(t, 1, nil)
	r.startKubelet(t)
	r.run(t)
	r.marker.wait(t, true)
	path := filepath.Join(r.dir, "nvidia-gpu.sock")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("other"), 0o600); err != nil {
		t.Fatal(err)
	}
	r.sockets <- struct{}{}
	r.marker.wait(t, false)
	r.end(t)
	if data, err := os.ReadFile(path); err != nil || string(data) != "other" {
		t.Errorf("the other plugin's socket is %q, %v", data, err)
	}
}

func TestRegistrationIsRetried(t *testing.T) {
	r := newRig(t, 1, nil)
	r.kubelet.Refuse(errors.New("not now"))
	r.startKubelet(t)
	r.run(t)
	if err := r.kubelet.WaitRefusals(limit(t), 2); err != nil {
		t.Fatal(err)
	}
	r.kubelet.Refuse(nil)
	r.marker.wait(t, true)
}

func TestLostAtStartLeavesTheOthers(t *testing.T) {
	r := newRig(t, 8, nil)
	r.source.Lose(gpu.UUID(id(3)))
	r.startKubelet(t)
	r.run(t)
	r.healths(t, ok, ok, ok, bad, ok, ok, ok, ok)
	r.marker.wait(t, true)
}

func TestLostAndHealed(t *testing.T) {
	r := newRig(t, 2, nil)
	r.startKubelet(t)
	r.run(t)
	r.healths(t, ok, ok)
	r.watched(t)
	r.source.Lose(gpu.UUID(id(0)))
	r.healths(t, bad, ok)
	r.source.Heal(gpu.UUID(id(0)))
	r.healths(t, ok, ok)
}

func TestUnpluggedAndPlugged(t *testing.T) {
	r := newRig(t, 2, nil)
	r.startKubelet(t)
	r.run(t)
	r.healths(t, ok, ok)
	r.watched(t)
	r.source.SetNode(gputest.Node(gputest.A100, 1))
	r.healths(t, ok)
	r.source.SetNode(gputest.Node(gputest.A100, 0))
	r.healths(t)
	r.source.SetNode(gputest.Node(gputest.A100, 3))
	r.healths(t, ok, ok, ok)
}

func TestLateDriver(t *testing.T) {
	r := newRig(t, 2, nil)
	r.source.SetDriver(false)
	r.startKubelet(t)
	r.run(t)
	err := r.source.WaitCalls(limit(t), func(c gputest.Calls) bool { return c.Snapshot > 0 })
	if err != nil {
		t.Fatal(err)
	}
	if err := r.plugin.Ready(); err == nil {
		t.Error("Ready without a driver")
	}
	r.source.SetDriver(true)
	r.changes <- struct{}{}
	r.healths(t, ok, ok)
	r.marker.wait(t, true)
}

func TestDriverGoesAndReturns(t *testing.T) {
	r := newRig(t, 2, nil)
	r.startKubelet(t)
	r.run(t)
	r.marker.wait(t, true)
	r.watched(t)
	r.source.SetDriver(false)
	r.healths(t, bad, bad)
	r.marker.wait(t, false)
	if err := r.plugin.Ready(); !errors.Is(err, gpu.ErrNoDriver) {
		t.Errorf("Ready says %v, want %v", err, gpu.ErrNoDriver)
	}
	r.source.SetDriver(true)
	r.changes <- struct{}{}
	r.healths(t, ok, ok)
	r.marker.wait(t, true)
}

func TestDriverReplacedEndsThePlugin(t *testing.T) {
	r := newRig(t, 1, nil)
	r.startKubelet(t)
	r.source.SetError(fmt.Errorf("%w: %w", gpu.ErrNoDriver, gpu.ErrDriverChanged))
	if err := r.plugin.Run(limit(t)); !errors.Is(err, gpu.ErrDriverChanged) {
		t.Errorf("Run returned %v, want %v", err, gpu.ErrDriverChanged)
	}
	r.kubelet.Stop()
}

func TestFailOnInitError(t *testing.T) {
	r := newRig(t, 1, func(c *plugin.Config) { c.Config.FailOnInitError = true })
	r.source.SetDriver(false)
	if err := r.plugin.Run(limit(t)); !errors.Is(err, gpu.ErrNoDriver) {
		t.Errorf("Run returned %v, want %v", err, gpu.ErrNoDriver)
	}
}

func TestPrepareFailsAndIsRetried(t *testing.T) {
	var (
		mu      sync.Mutex
		failure = errors.New("libcuda.so.1 not found")
	)
	r := newRig(t, 1, func(c *plugin.Config) {
		c.Preparer = preparer(func(*gpu.Node) (plugin.Prepared, error) {
			mu.Lock()
			defer mu.Unlock()
			return plugin.Prepared{}, failure
		})
	})
	r.startKubelet(t)
	r.run(t)
	r.watched(t)
	if n := len(r.kubelet.Registrations()); n != 0 {
		t.Errorf("%d registrations although the GPUs cannot be used", n)
	}
	if err := r.plugin.Ready(); err == nil {
		t.Error("Ready although the GPUs cannot be used")
	}
	mu.Lock()
	failure = nil
	mu.Unlock()
	r.changes <- struct{}{}
	r.healths(t, ok)
}

func TestReloadRegistersAgainAndForgetsXIDs(t *testing.T) {
	r := newRig(t, 1, nil)
	r.startKubelet(t)
	r.run(t)
	r.healths(t, ok)
	r.watched(t)
	r.source.PostXID(gpu.UUID(id(0)), 79)
	r.healths(t, bad)
	r.plugin.Reload()
	if _, err := r.kubelet.WaitRegistrations(limit(t), 2); err != nil {
		t.Fatal(err)
	}
	r.healths(t, ok)
}

func TestWithoutRegistration(t *testing.T) {
	r := newRig(t, 1, func(c *plugin.Config) { c.Config.Register = false })
	r.startKubelet(t)
	r.run(t)
	r.marker.wait(t, true)
	if n := len(r.kubelet.Registrations()); n != 0 {
		t.Errorf("%d registrations, want none", n)
	}
}

func TestStopRemovesTheSocket(t *testing.T) {
	r := newRig(t, 1, nil)
	r.startKubelet(t)
	r.run(t)
	r.marker.wait(t, true)
	r.end(t)
	r.marker.wait(t, false)
	if _, err := os.Lstat(filepath.Join(r.dir, "nvidia-gpu.sock")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket is still there: %v", err)
	}
}
