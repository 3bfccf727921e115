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
	// settleTime is how long further changes count as the same change.
	settleTime = 100 * time.Millisecond
	// pollTime is the interval of polling the bus if changes are not reported. treePoll is the
	// interval for trees outside sysfs.
	pollTime = time.Minute
	treePoll = 5 * time.Second
	// mountPoll is the interval for noticing that another tree is mounted over the bus, or is unmounted.
	mountPoll = 5 * time.Second
)

// Watch calls changed from the caller's goroutine, once at first, and then after a PCI device
// appears, disappears, or is bound to a driver or unbound from it. The result of Scan may then have
// changed. Watch returns when ctx ends.
//
// On sysfs the kernel reports changes as uevents. Other trees, of a simulated node, are watched
// with inotify. If the watch fails, Watch logs why and calls changed every minute, or every 5 s for
// a tree outside sysfs. It tries again to watch each time.
//
// A simulator can mount a tree over the bus while Watch runs. Watch then watches this tree.
func Watch(ctx context.Context, sysRoot string, log *slog.Logger, changed func()) {
	for ctx.Err() == nil {
		w := watch{devices: devicesDir(sysRoot), changed: changed, log: log, settle: settleTime, poll: treePoll, files: hostfs.NewWatcher}
		whileSame(ctx, w.devices, mountPoll, w.begin)
	}
}

// whileSame runs a function until the path is another file.
func whileSame(ctx context.Context, path string, every time.Duration, run func(context.Context)) {
	ctx, cancel := context.WithCancel(ctx)
	first, _ := os.Stat(path)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer cancel()
		for pace.Pause(ctx, every) {
			now, err := os.Stat(path)
			if first == nil {
				first = now
			}
			if err == nil && !os.SameFile(first, now) {
				return
			}
		}
	}()
	run(ctx)
	cancel()
	<-ended
}

// begin watches until ctx ends.
func (w watch) begin(ctx context.Context) {
	if errors.Is(hostfs.Watchable(w.devices), hostfs.ErrUnwatchable) {
		w.poll = pollTime
		w.run(ctx, func(works func()) error { return w.uevents(ctx, listen, works) })
		return
	}
	w.run(ctx, func(works func()) error { return w.tree(ctx, works) })
}

// watch is one call of Watch.
type watch struct {
	devices string
	changed func()
	log     *slog.Logger
	// files is hostfs.NewWatcher.
	files func(paths ...string) (*hostfs.Watcher, error)

	settle, poll time.Duration
}

// run calls follow again and again. The function follow returns why it cannot continue. It calls the
// function works after a change was reported.
func (w watch) run(ctx context.Context, follow func(works func()) error) {
	_ = hostfs.Rewatch(ctx, w.log, w.poll, func(works func()) error { // Rewatch ends with ctx
		err := follow(works)
		if ctx.Err() == nil {
			w.changed()
		}
		return err
	})
}

// uevents calls changed for each uevent. It returns an error when it can receive no more.
func (w watch) uevents(ctx context.Context, listen func() (*listener, error), works func()) error {
	l, err := listen()
	if err != nil {
		return err
	}
	defer l.close() //nolint:errcheck // the listener only reads
	for {
		w.changed()
		if err := l.next(ctx, w.settle); err != nil {
			return err
		}
		works()
	}
}

// tree calls changed for each change in folders outside sysfs.
func (w watch) tree(ctx context.Context, works func()) error {
	for {
		if err := w.treeChange(ctx); err != nil {
			return err
		}
		works()
		if !pace.Pause(ctx, w.settle) {
			return ctx.Err()
		}
	}
}

// treeChange calls changed, and returns after the next change.
func (w watch) treeChange(ctx context.Context) error {
	folders := w.folders()
	fw, err := w.files(folders...)
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
	return fw.Next(ctx)
}

// folders returns the folder of the bus and the folders of the devices. In the latter, the link to
// the driver appears and disappears.
func (w watch) folders() []string {
	folders := []string{w.devices}
	entries, err := os.ReadDir(w.devices)
	if err != nil {
		return folders // the watch also reports that the folder appears
	}
	for _, e := range entries {
		// Entries that are links lead to devices of the machine itself, on sysfs.
		if e.IsDir() {
			folders = append(folders, filepath.Join(w.devices, e.Name()))
		}
	}
	return folders
}
