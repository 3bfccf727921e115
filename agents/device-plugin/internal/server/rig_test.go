package server_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"gotest.tools/v3/assert"
	pluginapi "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"outrigger.dev/agents/device-plugin/internal/server"
	"outrigger.dev/agents/device-plugin/kubelettest"
	"outrigger.dev/pkg/agent/agenttest"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/health"
	"outrigger.dev/pkg/resource"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const resourceName = "nvidia.com/gpu"

// recorder keeps what is recorded.
type recorder struct {
	mu         sync.Mutex
	registered []error
	allocated  []error
}

func (r *recorder) Registered(_ string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.registered = append(r.registered, err)
}

func (r *recorder) Allocated(_ string, _ time.Duration, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.allocated = append(r.allocated, err)
}

// rig is a server, and a kubelet.
type rig struct {
	kubelet  *kubelettest.Kubelet
	cfg      server.Config
	server   *server.Server
	recorder *recorder
	log      *bytes.Buffer
	changed  chan struct{}
	stop     context.CancelFunc
	ended    chan error
}

func newRig(t testing.TB) *rig {
	t.Helper()
	return newRigWith(t, func(*server.Config) {})
}

// newRigWith returns a rig with another config.
func newRigWith(t testing.TB, change func(*server.Config)) *rig {
	t.Helper()
	dir := agenttest.ShortDir(t)
	kubelet, err := kubelettest.Start(dir)
	assert.NilError(t, err)
	t.Cleanup(kubelet.Stop)
	r := &rig{
		kubelet: kubelet, recorder: &recorder{}, log: &bytes.Buffer{},
		changed: make(chan struct{}, 1), ended: make(chan error, 1),
	}
	cfg := server.Config{
		Resource: resourceName, KubeletSocket: kubelet.Socket(), Register: true, Recorder: r.recorder,
		Changed: func() {
			select {
			case r.changed <- struct{}{}:
			default:
			}
		},
		Log: slog.New(slog.NewTextHandler(r.log, &slog.HandlerOptions{Level: slog.LevelWarn})),
	}
	change(&cfg)
	r.cfg, r.server = cfg, server.New(cfg)
	return r
}

func (r *rig) run(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	r.stop = cancel
	go func() { r.ended <- r.server.Run(ctx) }()
	t.Cleanup(func() { r.end(t) })
}

// end stops the server and waits for it.
func (r *rig) end(t testing.TB) {
	t.Helper()
	if r.ended == nil {
		return
	}
	r.stop()
	select {
	case err := <-r.ended:
		assert.NilError(t, err, "Run")
	case <-time.After(5 * time.Minute):
		t.Error("Run has not returned a minute after its context ended")
	}
	r.ended = nil
}

// status waits until the server has this status.
func (r *rig) status(t testing.TB, want server.Status) {
	t.Helper()
	for end := agenttest.Deadline(t); r.server.Status() != want; {
		select {
		case <-end.Done():
			t.Fatalf("status is %+v for 10 s, want %+v", r.server.Status(), want)
		case <-r.changed:
		}
	}
}

// healths waits until the kubelet's list has these healths, in order.
func (r *rig) healths(t testing.TB, want ...string) {
	t.Helper()
	if _, err := r.kubelet.WaitDevices(agenttest.Deadline(t), resourceName, func(ds []*pluginapi.Device) bool {
		return slices.EqualFunc(ds, want, func(d *pluginapi.Device, h string) bool { return d.GetHealth() == h })
	}); err != nil {
		t.Fatalf("want %v: %v", want, err)
	}
}

func (r *rig) plugin(t testing.TB) pluginapi.DevicePluginClient {
	t.Helper()
	c, err := r.kubelet.Plugin(resourceName)
	assert.NilError(t, err)
	return c
}

const (
	ok  = pluginapi.Healthy
	bad = pluginapi.Unhealthy
)

// gpus returns a resource of n GPUs that are advertised so often each, of which
// those at the places are not healthy.
func gpus(n, replicas int, sick ...int) resource.Resource {
	res := resource.Resource{Name: resourceName}
	for i := range n {
		res.Devices = append(res.Devices, resource.Device{
			UUID: gpu.UUID(fmt.Sprintf("GPU-00000000-0000-4000-8000-%012x", i)), Index: fmt.Sprint(i), GPU: i, Replicas: replicas,
			NUMANode: i / 4, Health: health.Status{Healthy: !slices.Contains(sick, i)},
		})
	}
	return res
}
