package app

import (
	"context"
	"io/fs"
	"log/slog"
	"os"
	"time"

	"outrigger.dev/agents/driver-loader/internal/loader"
	"outrigger.dev/pkg/contract"
	"outrigger.dev/pkg/pace"
)

// swapper is the loader for an upgrade. It records the fact of the device plugin before it changes
// the driver, because the plugin removes the fact only after it has closed the driver.
type swapper struct {
	*loader.Loader
	plugin *pluginFact
}

// Swap implements upgrade.Driver.
func (s swapper) Swap(ctx context.Context, target string) error {
	s.plugin.recordCurrent()
	return s.Loader.Swap(ctx, target)
}

// RollBack implements upgrade.Driver.
func (s swapper) RollBack(ctx context.Context, previous string) error {
	s.plugin.recordCurrent()
	return s.Loader.RollBack(ctx, previous)
}

// pluginFact waits for plugin-ready, a fact of package contract that the device plugin writes.
type pluginFact struct {
	dir contract.Dir
	log *slog.Logger
	// stale is the file that was written for the unloaded driver; nil if it is not known.
	stale fs.FileInfo
}

// recordCurrent records the file of the fact, which becomes stale. A missing file is not stale.
func (p *pluginFact) recordCurrent() {
	info, err := os.Stat(p.dir.Path(contract.PluginReady))
	if err != nil {
		info = nil
	}
	p.stale = info
}

// awaitReady waits until the plugin has written the fact again after recordCurrent. It accepts an
// unchanged fact after staleLimit, because the plugin might not notice that the driver was
// replaced.
func (p *pluginFact) awaitReady(ctx context.Context) error {
	for left := staleLimit; ; left -= staleInterval {
		_, err := p.dir.Wait(ctx, contract.PluginReady, func(f contract.Fact) {
			p.log.Info("waiting for the device plugin before making the node schedulable", "reason", f.Reason)
		})
		if err != nil {
			return err
		}
		info, err := os.Stat(p.dir.Path(contract.PluginReady))
		if err == nil && (left <= 0 || p.stale == nil || !os.SameFile(info, p.stale) || !info.ModTime().Equal(p.stale.ModTime())) {
			p.stale = nil
			return nil
		}
		if !pace.Pause(ctx, staleInterval) {
			return context.Cause(ctx)
		}
	}
}

// staleInterval is the time between reads of a fact that may be stale. After staleLimit, the fact is
// accepted. The plugin closes the driver within a second.
const (
	staleInterval = 100 * time.Millisecond
	staleLimit    = 5 * time.Second
)
