package pci

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"outrigger.dev/pkg/hostfs"
	"outrigger.dev/pkg/pace"
)

const (
	// settleTime is how long changes are collected into one.
	settleTime = 100 * time.Millisecond
	// pollTime is how often the bus is polled where changes are not reported.
	pollTime = time.Minute
)

// Watch calls changed from the caller's goroutine, once at first, and then when a PCI
// device appears, disappears, or is bound to a driver or unbound from it: then Scan may
// return something else. It returns nil when ctx ends.
//
// On sysfs the kernel reports changes as uevents. Where it does not, Watch logs why and
// calls changed every minute. Other trees, of a simulated node, are watched with inotify;
// only there can Watch return an error.
func Watch(ctx context.Context, sysRoot string, log *slog.Logger, changed func()) error {
	w := watch{devices: devicesDir(sysRoot), changed: changed, log: log, settle: settleTime, poll: pollTime}
	if errors.Is(hostfs.Watchable(w.devices), hostfs.ErrUnwatchable) {
		w.kernel(ctx, listen)
		return nil
	}
	return w.tree(ctx)
}

// watch is one call of Watch.
type watch struct {
	devices string
	changed func()
	log     *slog.Logger

	settle, poll time.Duration
}

// kernel waits for uevents, or polls where there are none.
func (w watch) kernel(ctx context.Context, listen func() (*listener, error)) {
	err := w.uevents(ctx, listen)
	if ctx.Err() != nil {
		return
	}
	w.log.Warn("PCI hotplug events unavailable, polling", "every", w.poll, "err", err)
	for w.changed(); pace.Pause(ctx, w.poll); {
		w.changed()
	}
}

// uevents calls changed for each uevent. It returns why there are no more.
func (w watch) uevents(ctx context.Context, listen func() (*listener, error)) error {
	l, err := listen()
	if err != nil {
		return err
	}
	defer l.close() //nolint:errcheck // it was only read
	for err == nil {
		w.changed()
		err = l.next(ctx, w.settle)
	}
	return err
}

// tree watches folders outside sysfs.
func (w watch) tree(ctx context.Context) error {
	for {
		err := w.treeChange(ctx)
		if err != nil && ctx.Err() == nil {
			return err
		}
		if !pace.Pause(ctx, w.settle) {
			return nil
		}
	}
}

// treeChange calls changed, and returns after the next change.
func (w watch) treeChange(ctx context.Context) error {
	folders := w.folders()
	fw, err := hostfs.NewWatcher(folders...)
	if err != nil {
		return err
	}
	defer fw.Close() //nolint:errcheck // nothing was written through it
	if !slices.Equal(folders, w.folders()) {
		return nil // a device appeared or disappeared before the watch began
	}
	if err := fw.Next(ctx); err != nil { // the existing folders
		return err
	}
	w.changed()
	err = fw.Next(ctx)
	return err
}

// folders returns the folder of the bus, and those of the devices, in which the link to
// the driver appears and disappears.
func (w watch) folders() []string {
	folders := []string{w.devices}
	entries, err := os.ReadDir(w.devices)
	if err != nil {
		return folders // the watch also notices when it appears
	}
	for _, e := range entries {
		// A link leads to a device of the machine itself, on sysfs.
		if e.IsDir() {
			folders = append(folders, filepath.Join(w.devices, e.Name()))
		}
	}
	return folders
}
