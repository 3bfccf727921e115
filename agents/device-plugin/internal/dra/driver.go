package dra

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"reflect"
	"sync"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	"k8s.io/dynamic-resource-allocation/resourceslice"

	"outrigger.dev/pkg/hostfs"
)

const (
	// healthTimeout is how long the kubelet believes a report, and healthEvery
	// how often one is sent although nothing has changed.
	healthTimeout = 10 * time.Minute
	healthEvery   = 5 * time.Minute
)

// Publisher makes the devices of this node's pool known to the cluster.
type Publisher interface {
	PublishResources(ctx context.Context, resources resourceslice.DriverResources) error
}

// Config says what a Driver works with.
type Config struct {
	// Node is the name of the Node, and of its pool.
	Node string
	// LedgerPath is the file of the prepared claims.
	LedgerPath string
	// Exists reports whether a claim is still there, which tells one that the
	// kubelet has forgotten from one that holds a device.
	Exists func(ctx context.Context, claim types.UID, name string) (bool, error)
	// Failed is called for what the library cannot do in the background.
	Failed func(err error)
	Log    *slog.Logger
}

// Driver answers the kubelet and publishes the devices. It is safe for
// concurrent use.
type Driver struct {
	cfg Config

	mu      sync.Mutex
	devices []Device
	ledger  Ledger
	// published is what was published last, nil before.
	published []resourceapi.Device
	// changed is closed and replaced when devices change.
	changed chan struct{}
}

var _ kubeletplugin.DRAPlugin = (*Driver)(nil)

// New returns a Driver that knows of the claims that were prepared before.
func New(cfg Config) (*Driver, error) {
	d := &Driver{cfg: cfg, ledger: Ledger{}, changed: make(chan struct{})}
	data, err := os.ReadFile(cfg.LedgerPath)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return d, nil
	case err != nil:
		return nil, fmt.Errorf("read prepared claims: %w", err)
	}
	if d.ledger, err = DecodeLedger(data); err != nil {
		return nil, fmt.Errorf("read prepared claims %s: %w (if no pod on this node uses a claim of %s, remove the file)", cfg.LedgerPath, err, DriverName)
	}
	return d, nil
}

// Offer makes devices those that claims get from now on, and publishes the
// healthy ones if they have changed. A device that is not healthy is not
// published, so that no new claim gets it; claims that have it keep it.
func (d *Driver) Offer(ctx context.Context, devices []Device, to Publisher) error {
	healthy := []resourceapi.Device{}
	for _, dev := range devices {
		if dev.Health.Healthy {
			healthy = append(healthy, dev.Spec)
		}
	}
	d.mu.Lock()
	if !reflect.DeepEqual(d.devices, devices) {
		d.devices = devices
		close(d.changed)
		d.changed = make(chan struct{})
	}
	same := d.published != nil && reflect.DeepEqual(d.published, healthy)
	d.published = healthy
	d.mu.Unlock()
	if same {
		return nil
	}
	err := to.PublishResources(ctx, resourceslice.DriverResources{Pools: map[string]resourceslice.Pool{
		d.cfg.Node: {Slices: slicesOf(healthy)},
	}})
	if err != nil {
		return fmt.Errorf("publish the devices of node %s: %w", d.cfg.Node, err)
	}
	d.cfg.Log.Info("devices published", "pool", d.cfg.Node, "devices", len(healthy), "unhealthy", len(devices)-len(healthy))
	return nil
}

// slicesOf divides devices into slices that the API takes. An empty pool has
// one empty slice: it shows that the driver runs.
func slicesOf(devices []resourceapi.Device) []resourceslice.Slice {
	out := []resourceslice.Slice{}
	for len(devices) > resourceapi.ResourceSliceMaxDevices {
		out = append(out, resourceslice.Slice{Devices: devices[:resourceapi.ResourceSliceMaxDevices]})
		devices = devices[resourceapi.ResourceSliceMaxDevices:]
	}
	return append(out, resourceslice.Slice{Devices: devices})
}

// PrepareResourceClaims answers with the CDI devices of each claim. The specs
// of these are there before the devices are published.
func (d *Driver) PrepareResourceClaims(ctx context.Context, claims []*resourceapi.ResourceClaim) (map[types.UID]kubeletplugin.PrepareResult, error) {
	out := make(map[types.UID]kubeletplugin.PrepareResult, len(claims))
	for _, c := range claims {
		granted, err := d.prepare(ctx, c)
		if err != nil {
			err = fmt.Errorf("prepare claim %s/%s: %w", c.Namespace, c.Name, err)
			d.cfg.Log.Error("claim not prepared", "claim", c.Namespace+"/"+c.Name, "err", err)
			out[c.UID] = kubeletplugin.PrepareResult{Err: err}
			continue
		}
		out[c.UID] = kubeletplugin.PrepareResult{Devices: answer(granted)}
		d.cfg.Log.Info("claim prepared", "claim", c.Namespace+"/"+c.Name, "devices", len(granted))
	}
	return out, nil
}

func answer(granted []Granted) []kubeletplugin.Device {
	out := make([]kubeletplugin.Device, 0, len(granted))
	for _, g := range granted {
		out = append(out, kubeletplugin.Device{
			Requests: []string{g.Request}, PoolName: g.Pool, DeviceName: g.Device.Name,
			CDIDeviceIDs: []string{g.Device.CDI()},
		})
	}
	return out
}

func (d *Driver) prepare(ctx context.Context, c *resourceapi.ResourceClaim) ([]Granted, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	granted, next, err := d.ledger.Prepare(c, d.cfg.Node, d.devices)
	if err != nil {
		known := d.forgetGone(ctx)
		if granted, next, err = known.Prepare(c, d.cfg.Node, d.devices); err != nil {
			return nil, err
		}
	}
	return granted, d.keep(next)
}

// forgetGone returns the ledger without the claims that are not there any more.
// The kubelet gives claims back, but one whose state was lost cannot.
func (d *Driver) forgetGone(ctx context.Context) Ledger {
	next := d.ledger
	for uid, c := range d.ledger {
		there, err := d.cfg.Exists(ctx, uid, c.Name)
		if err != nil {
			d.cfg.Log.Warn("claim not looked up, its devices stay taken", "claim", c.Name, "err", err)
			continue
		}
		if !there {
			d.cfg.Log.Info("claim is gone, its devices are free", "claim", c.Name)
			next = next.Unprepare(uid)
		}
	}
	return next
}

// keep makes next the ledger, on disk first.
func (d *Driver) keep(next Ledger) error {
	data, err := next.Encode()
	if err != nil {
		return err
	}
	if _, err := hostfs.WriteIfChanged(d.cfg.LedgerPath, data, 0o600); err != nil {
		return fmt.Errorf("keep prepared claims: %w", err)
	}
	d.ledger = next
	return nil
}

// UnprepareResourceClaims gives devices back.
func (d *Driver) UnprepareResourceClaims(_ context.Context, claims []kubeletplugin.NamespacedObject) (map[types.UID]error, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := make(map[types.UID]error, len(claims))
	for _, c := range claims {
		out[c.UID] = d.keep(d.ledger.Unprepare(c.UID))
		d.cfg.Log.Info("claim given back", "claim", c.Namespace+"/"+c.Name)
	}
	return out, nil
}

// HandleError takes what the library could not do in the background. What it
// tries again by itself is logged.
func (d *Driver) HandleError(_ context.Context, err error, msg string) {
	if errors.Is(err, kubeletplugin.ErrRecoverable) {
		d.cfg.Log.Warn("devices are not published yet, trying again", "problem", msg, "err", err)
		return
	}
	d.cfg.Failed(fmt.Errorf("%s: %w", msg, err))
}

// WatchHealthStatus reports the health of the devices, which the kubelet shows
// in the status of the pods that have them.
func (d *Driver) WatchHealthStatus(ctx context.Context, reports chan<- kubeletplugin.DeviceHealthReport) error {
	tick := time.NewTicker(healthEvery)
	defer tick.Stop()
	for {
		report, changed := d.report()
		select {
		case <-ctx.Done():
			return nil
		case reports <- report:
		}
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		case <-tick.C:
		}
	}
}

func (d *Driver) report() (kubeletplugin.DeviceHealthReport, <-chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var out kubeletplugin.DeviceHealthReport
	now := time.Now()
	for _, dev := range d.devices {
		status := kubeletplugin.HealthStatusHealthy
		if !dev.Health.Healthy {
			status = kubeletplugin.HealthStatusUnhealthy
		}
		out.Devices = append(out.Devices, kubeletplugin.DeviceHealth{
			PoolName: d.cfg.Node, DeviceName: dev.Name, Health: status,
			LastUpdated: now, HealthCheckTimeout: healthTimeout, Message: dev.Health.Reason,
		})
	}
	return out, d.changed
}
