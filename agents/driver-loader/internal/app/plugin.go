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

// swapper is the loader as an upgrade uses it. It notes the fact of the device plugin before the
// driver is touched: the plugin withdraws it a moment after it has let go of the driver.
type swapper struct {
	*loader.Loader
	plugin *pluginFact
}

// Swap is that of upgrade.Driver.
func (s swapper) Swap(ctx context.Context, target string) error {
	s.plugin.recordCurrent()
	return s.Loader.Swap(ctx, target)
}

// RollBack is that of upgrade.Driver.
func (s swapper) RollBack(ctx context.Context, previous string) error {
	s.plugin.recordCurrent()
	return s.Loader.RollBack(ctx, previous)
}

// pluginFact is the fact plugin-ready.
type pluginFact struct {
	dir contract.Dir
	log *slog.Logger
	// stale is the file of a driver that was unloaded since; nil if this process does not know it.
	stale fs.FileInfo
}

// recordCurrent remembers the file that is there. One that is not there is not stale.
func (p *pluginFact) recordCurrent() {
	info, err := os.Stat(p.dir.Path(contract.PluginReady))
	if err != nil {
		info = nil
	}
	p.stale = info
}

// awaitReady waits until the plugin has written the fact, after note; or has left it for so long that
// it needs not: it may not notice that a driver is replaced by itself.
func (p *pluginFact) awaitReady(ctx context.Context) error {
	for left := staleLimit; ; left -= staleAgain {
		_, err := p.dir.Wait(ctx, contract.PluginReady, func(f contract.Fact) {
			p.log.Info("waiting for the device plugin, before pods with GPUs come back", "reason", f.Reason)
		})
		if err != nil {
			return err
		}
		info, err := os.Stat(p.dir.Path(contract.PluginReady))
		if err == nil && (left <= 0 || p.stale == nil || !os.SameFile(info, p.stale) || !info.ModTime().Equal(p.stale.ModTime())) {
			p.stale = nil
			return nil
		}
		if !pace.Pause(ctx, staleAgain) {
			return context.Cause(ctx)
		}
	}
}

// staleAgain is how often a fact that may be stale is looked at, and staleLimit for how long: a
// plugin is asked to let go of the driver before that is touched, and does so in a second.
const (
	staleAgain = 100 * time.Millisecond
	staleLimit = 5 * time.Second
)
