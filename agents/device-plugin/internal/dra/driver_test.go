package dra_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"gotest.tools/v3/assert"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	"k8s.io/dynamic-resource-allocation/resourceslice"

	"outrigger.dev/agents/device-plugin/internal/dra"
	"outrigger.dev/pkg/health"
)

// published keeps what was published.
type published [][]resourceapi.Device

func (p *published) PublishResources(_ context.Context, r resourceslice.DriverResources) error {
	var all []resourceapi.Device
	for _, s := range r.Pools[node].Slices {
		all = append(all, s.Devices...)
	}
	*p = append(*p, all)
	return nil
}

func device(name string, s health.Status) dra.Device {
	return dra.Device{Name: name, UUID: "GPU-" + "x", Spec: resourceapi.Device{Name: name}, Health: s}
}

type claims map[types.UID]bool

func driver(t *testing.T, path string, there claims) *dra.Driver {
	t.Helper()
	return booted(t, path, there, "this boot")
}

// booted returns a driver of one boot of the node.
func booted(t *testing.T, path string, there claims, boot string) *dra.Driver {
	t.Helper()
	d, err := dra.New(dra.Config{
		Node: node, CheckpointPath: path, BootID: boot,
		Exists: func(_ context.Context, uid types.UID, _ string) (bool, error) {
			there, known := there[uid]
			if !known {
				return false, errors.New("no answer")
			}
			return there, nil
		},
		Failed: func(err error) { t.Error(err) },
		Log:    slog.New(slog.DiscardHandler),
	})
	assert.NilError(t, err)
	return d
}

func TestOnlyHealthyDevicesArePublishedAndOnlyChanges(t *testing.T) {
	d := driver(t, filepath.Join(t.TempDir(), "claims"), nil)
	healthy := health.Status{Healthy: true}
	var to published
	advertise := func(want int, devices ...dra.Device) {
		devices = append([]dra.Device{}, devices...)
		t.Helper()
		assert.NilError(t, d.Advertise(t.Context(), devices, &to))
		if len(to) != want {
			t.Fatalf("published %d times, want %d", len(to), want)
		}
	}
	advertise(1, device("gpu-0", healthy), device("gpu-1", healthy))
	advertise(1, device("gpu-0", healthy), device("gpu-1", healthy))
	advertise(2, device("gpu-0", healthy), device("gpu-1", health.Status{Reason: "xid 79"}))
	if len(to[1]) != 1 || to[1][0].Name != "gpu-0" {
		t.Errorf("published %v, want gpu-0 alone", to[1])
	}
	advertise(3)
	advertise(3)
	if len(to[2]) != 0 {
		t.Errorf("published %v, want an empty pool", to[2])
	}
}

func TestPreparedClaimsOutliveTheProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "claims")
	there := claims{"a": true, "b": true}
	prepare := func(d *dra.Driver, uid string) error { return prepare(t, d, uid, "gpu-0") }
	assert.NilError(t, prepare(driver(t, path, there), "a"))
	d := driver(t, path, there)
	if err := prepare(d, "b"); err == nil || !strings.HasSuffix(err.Error(), "in use by claim ns/a (a)") {
		t.Errorf("another process gives the device away again: %v", err)
	}
	// The API server forgets a claim whose pod is deleted by force. The pod may run on.
	there["a"] = false
	assert.ErrorContains(t, prepare(d, "b"), "in use by claim ns/a (a); this claim is deleted, but its pod may still run here")
	if _, err := d.UnprepareResourceClaims(t.Context(), []kubeletplugin.NamespacedObject{{UID: "a"}}); err != nil {
		t.Fatal(err)
	}
	assert.NilError(t, prepare(d, "b"), "the device of an unprepared claim cannot be prepared again")
	out, err := d.UnprepareResourceClaims(t.Context(), []kubeletplugin.NamespacedObject{{UID: "b"}, {UID: "never"}})
	if err != nil || len(out) != 2 || out["b"] != nil || out["never"] != nil {
		t.Errorf("Unprepare() = %v, %v", out, err)
	}
	assert.NilError(t, prepare(driver(t, path, there), "a"), "the device of an unprepared claim cannot be prepared again")
}

// prepare prepares a claim for one device.
func prepare(t *testing.T, d *dra.Driver, uid, device string) error {
	t.Helper()
	assert.NilError(t, d.Advertise(t.Context(), devices(), &published{}))
	out, err := d.PrepareResourceClaims(t.Context(), []*resourceapi.ResourceClaim{claim(uid, device)})
	assert.NilError(t, err)
	result := out[types.UID(uid)]
	want := "k8s.gpu.nvidia.com/gpu=" + map[string]string{"gpu-0": "GPU-a", "gpu-1": "GPU-b"}[device]
	if result.Err == nil && (len(result.Devices) != 1 || result.Devices[0].CDIDeviceIDs[0] != want) {
		t.Errorf("prepared %+v, want %s", result.Devices, want)
	}
	return result.Err
}

func TestABootReleasesAllDevices(t *testing.T) {
	path := filepath.Join(t.TempDir(), "claims")
	assert.NilError(t, prepare(t, driver(t, path, nil), "a", "gpu-0"))
	for _, boot := range []string{"this boot", ""} {
		if err := prepare(t, booted(t, path, nil, boot), "b", "gpu-0"); err == nil {
			t.Errorf("boot %q gives the device away, though its claim was prepared in this boot", boot)
		}
	}
	assert.NilError(t, prepare(t, booted(t, path, nil, "the next boot"), "b", "gpu-0"), "no pod of the last boot runs, but its claim holds the device")
}

// A claim that cannot be prepared must not cost the API server, nor other claims, anything
// that grows with the number of claims.
func TestABadClaimKeepsNoOtherWaiting(t *testing.T) {
	var lookups atomic.Int32
	asked, answer := make(chan struct{}), make(chan struct{})
	d, err := dra.New(dra.Config{
		Node: node, CheckpointPath: filepath.Join(t.TempDir(), "claims"),
		Exists: func(context.Context, types.UID, string) (bool, error) {
			lookups.Add(1)
			close(asked)
			<-answer
			return true, nil
		},
		Log: slog.New(slog.DiscardHandler),
	})
	assert.NilError(t, err)
	assert.NilError(t, prepare(t, d, "a", "gpu-0"))
	if err := prepare(t, d, "bad", "gpu-7"); err == nil || lookups.Load() > 0 {
		t.Errorf("a claim for a device that is gone: %v, with %d lookups, want an error and none", err, lookups.Load())
	}
	conflict := make(chan error, 1)
	go func() {
		out, err := d.PrepareResourceClaims(context.Background(), []*resourceapi.ResourceClaim{claim("b", "gpu-0")})
		conflict <- errors.Join(err, out["b"].Err)
	}()
	<-asked
	assert.NilError(t, prepare(t, d, "c", "gpu-1"))
	close(answer)
	if err := <-conflict; err == nil || lookups.Load() != 1 {
		t.Errorf("a claim for a device of another one: %v, with %d lookups, want an error and one", err, lookups.Load())
	}
}

func TestADamagedCheckpointIsNamed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "claims")
	assert.NilError(t, os.WriteFile(path, []byte("{"), 0o600))
	_, err := dra.New(dra.Config{CheckpointPath: path})
	if err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "remove the file") {
		t.Errorf("New() = %v", err)
	}
	pipe := filepath.Join(t.TempDir(), "pipe")
	assert.NilError(t, syscall.Mkfifo(pipe, 0o600))
	if _, err := dra.New(dra.Config{CheckpointPath: pipe}); err == nil || !strings.Contains(err.Error(), "it is a named pipe") {
		t.Errorf("New() with a named pipe = %v", err)
	}
}

func TestHealthIsReportedWhenItChanges(t *testing.T) {
	d := driver(t, filepath.Join(t.TempDir(), "claims"), nil)
	ctx, cancel := context.WithCancel(t.Context())
	reports := make(chan kubeletplugin.DeviceHealthReport)
	done := make(chan error, 1)
	go func() { done <- d.WatchHealthStatus(ctx, reports) }()
	if r := <-reports; len(r.Devices) != 0 {
		t.Errorf("first report %+v", r)
	}
	assert.NilError(t, d.Advertise(t.Context(), []dra.Device{device("gpu-0", health.Status{Reason: "xid 79"})}, &published{}))
	r := <-reports
	if len(r.Devices) != 1 || r.Devices[0].Health != kubeletplugin.HealthStatusUnhealthy || r.Devices[0].Message != "xid 79" {
		t.Errorf("report %+v", r)
	}
	cancel()
	assert.NilError(t, <-done)
}
