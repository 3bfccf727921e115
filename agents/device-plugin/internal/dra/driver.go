package dra

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"reflect" // DeepEqual: the values have slices, maps or pointers
	"sync"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	"k8s.io/dynamic-resource-allocation/resourceslice"

	"outrigger.dev/pkg/hostfs"
)

const (
	// healthTimeout is how long the kubelet trusts a health report. The driver repeats an
	// unchanged report at the interval healthEvery.
	healthTimeout = 10 * time.Minute
	healthEvery   = 5 * time.Minute
)

// Publisher publishes the devices of this node's pool as ResourceSlices.
type Publisher interface {
	PublishResources(ctx context.Context, resources resourceslice.DriverResources) error
}

// Config configures a Driver.
type Config struct {
	// Node is the name of the Node and of its pool.
	Node string
	// CheckpointPath is the file that records the prepared claims.
	CheckpointPath string
	// BootID identifies this boot of the node. If it is empty, claims of an earlier boot
	// keep their devices.
	BootID string
	// Exists reports whether the API server still has a claim. It is used only to explain
	// an error, because the pod of a deleted claim may still run.
	Exists func(ctx context.Context, claim types.UID, name string) (bool, error)
	// Failed is called with an error in the background work of the library kubeletplugin, if
	// the library does not retry the work.
	Failed func(err error)
	Log    *slog.Logger
}

// Driver prepares claims for the kubelet and publishes the devices. It is safe for
// concurrent use.
type Driver struct {
	cfg Config

	mu sync.Mutex
	// devices is nil before the first call of Advertise.
	devices    []Device
	checkpoint Checkpoint
	// changed is closed and replaced when the devices change.
	changed chan struct{}
}

var _ kubeletplugin.DRAPlugin = (*Driver)(nil)

// lookupLimit limits the lookup of a claim for an error message.
const lookupLimit = 5 * time.Second

// maxCheckpoint limits the size of the checkpoint's file, in bytes. A claim takes some hundred bytes.
const maxCheckpoint = 16 << 20

// New returns a Driver with the claims that earlier processes have prepared since the node
// booted.
func New(cfg Config) (*Driver, error) {
	d := &Driver{cfg: cfg, checkpoint: Checkpoint{}, changed: make(chan struct{})}
	data, err := hostfs.ReadFile(cfg.CheckpointPath, maxCheckpoint)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return d, nil
	case err != nil:
		return nil, fmt.Errorf("read prepared claims: %w", err)
	}
	if d.checkpoint, err = DecodeCheckpoint(data); err != nil {
		return nil, fmt.Errorf("read prepared claims %s: %w (if no pod on this node uses a claim of %s, remove the file)", cfg.CheckpointPath, err, DriverName)
	}
	if since := d.checkpoint.sinceBoot(cfg.BootID); len(since) < len(d.checkpoint) {
		cfg.Log.Info("the node has rebooted, releasing the devices of earlier claims", "claims", len(d.checkpoint)-len(since))
		d.checkpoint = since
	}
	return d, nil
}

// Advertise replaces the devices that claims can get, and publishes the healthy ones. It
// does nothing if the devices have not changed. An unhealthy device is not published, so
// that no new claim gets it. Claims that already have it keep it.
func (d *Driver) Advertise(ctx context.Context, devices []Device, to Publisher) error {
	if !d.replace(devices) {
		return nil
	}
	healthy := []resourceapi.Device{}
	for _, dev := range devices {
		if dev.Health.Healthy {
			healthy = append(healthy, dev.Spec)
		}
	}
	err := to.PublishResources(ctx, resourceslice.DriverResources{Pools: map[string]resourceslice.Pool{
		d.cfg.Node: {Slices: splitIntoSlices(healthy)},
	}})
	if err != nil {
		return fmt.Errorf("publish the devices of node %s: %w", d.cfg.Node, err)
	}
	d.cfg.Log.Info("devices published", "pool", d.cfg.Node, "devices", len(healthy), "unhealthy", len(devices)-len(healthy))
	return nil
}

// replace replaces the devices, and reports whether they have changed.
func (d *Driver) replace(devices []Device) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	// Reflection is necessary because devices of the Kubernetes API have no Equal method.
	if d.devices != nil && reflect.DeepEqual(d.devices, devices) {
		return false
	}
	d.devices = devices
	close(d.changed)
	d.changed = make(chan struct{})
	return true
}

// splitIntoSlices splits the devices into ResourceSlices of the size that the API accepts. A
// pool without devices has one empty slice, which shows that the driver runs.
func splitIntoSlices(devices []resourceapi.Device) []resourceslice.Slice {
	out := []resourceslice.Slice{}
	for len(devices) > resourceapi.ResourceSliceMaxDevices {
		out = append(out, resourceslice.Slice{Devices: devices[:resourceapi.ResourceSliceMaxDevices]})
		devices = devices[resourceapi.ResourceSliceMaxDevices:]
	}
	return append(out, resourceslice.Slice{Devices: devices})
}

// PrepareResourceClaims returns the CDI devices of each claim. Their CDI specs exist already,
// because the inventory writes them before the devices are published.
func (d *Driver) PrepareResourceClaims(ctx context.Context, claims []*resourceapi.ResourceClaim) (map[types.UID]kubeletplugin.PrepareResult, error) {
	out := make(map[types.UID]kubeletplugin.PrepareResult, len(claims))
	for _, c := range claims {
		granted, err := d.prepare(ctx, c)
		if err != nil {
			err = fmt.Errorf("prepare claim %s/%s: %w", c.Namespace, c.Name, err)
			d.cfg.Log.Error("cannot prepare claim", "claim", c.Namespace+"/"+c.Name, "err", err)
			out[c.UID] = kubeletplugin.PrepareResult{Err: err}
			continue
		}
		out[c.UID] = kubeletplugin.PrepareResult{Devices: kubeletDevices(granted)}
		d.cfg.Log.Info("claim prepared", "claim", c.Namespace+"/"+c.Name, "devices", len(granted))
	}
	return out, nil
}

func kubeletDevices(granted []Granted) []kubeletplugin.Device {
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
	granted, err := d.grant(c)
	if inUse, ok := errors.AsType[*InUseError](err); ok && d.isDeleted(ctx, inUse) {
		err = fmt.Errorf("%w; this claim is deleted, but its pod may still run here: the kubelet releases the device when the pod has ended; if it does not, drain and reboot the node", inUse)
	}
	return granted, err
}

// grant returns the devices of the claim, and records them in the checkpoint.
func (d *Driver) grant(c *resourceapi.ResourceClaim) ([]Granted, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	granted, next, err := d.checkpoint.Prepare(c, d.cfg.Node, d.devices)
	if err != nil {
		return nil, err
	}
	if mine, ok := next[c.UID]; ok {
		mine.BootID = d.cfg.BootID
		next[c.UID] = mine
	}
	return granted, d.record(next)
}

// isDeleted reports whether the API server no longer has the claim. The caller must not hold
// the lock, because a slow API server must not delay other claims.
func (d *Driver) isDeleted(ctx context.Context, e *InUseError) bool {
	ctx, cancel := context.WithTimeout(ctx, lookupLimit)
	defer cancel()
	exists, err := d.cfg.Exists(ctx, e.UID, e.Claim)
	if err != nil {
		d.cfg.Log.Warn("cannot look up the claim that holds a device of a new claim", "claim", e.Claim, "err", err)
	}
	return err == nil && !exists
}

// record writes a new checkpoint to disk, and then puts it into use.
func (d *Driver) record(next Checkpoint) error {
	data, err := next.Encode()
	if err != nil {
		return err
	}
	if _, err := hostfs.WriteIfChanged(d.cfg.CheckpointPath, data, 0o600); err != nil {
		return fmt.Errorf("record prepared claims: %w", err)
	}
	d.checkpoint = next
	return nil
}

// UnprepareResourceClaims releases the devices of the claims.
func (d *Driver) UnprepareResourceClaims(_ context.Context, claims []kubeletplugin.NamespacedObject) (map[types.UID]error, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := make(map[types.UID]error, len(claims))
	for _, c := range claims {
		out[c.UID] = d.record(d.checkpoint.Unprepare(c.UID))
		d.cfg.Log.Info("claim unprepared", "claim", c.Namespace+"/"+c.Name)
	}
	return out, nil
}

// HandleError handles errors of the library's background work. It logs errors that the
// library retries, and passes all others to Config.Failed.
func (d *Driver) HandleError(_ context.Context, err error, msg string) {
	if errors.Is(err, kubeletplugin.ErrRecoverable) {
		d.cfg.Log.Warn("cannot publish devices, retrying", "problem", msg, "err", err)
		return
	}
	d.cfg.Failed(fmt.Errorf("%s: %w", msg, err))
}

// WatchHealthStatus reports the health of the devices. The kubelet shows it in the status of
// the pods that use the devices.
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
