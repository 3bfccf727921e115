package app

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"outrigger.dev/pkg/contract"
	"outrigger.dev/pkg/pace"
)

func TestAFactOfBeforeTheUpgradeIsNotTheDevicePluginsAnswer(t *testing.T) {
	p := &pluginFact{dir: contract.Dir{Root: t.TempDir(), ProcRoot: "/proc"}, log: slog.New(slog.DiscardHandler)}
	write := func() {
		assert.NilError(t, p.dir.Write(contract.PluginReady, contract.Record{Writer: "device-plugin"}))
	}
	write()
	assert.NilError(t, p.awaitReady(t.Context()), "a process that has swapped nothing")
	p.recordCurrent()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := p.awaitReady(ended); err == nil {
		t.Error("the fact of before counts")
	}
	answered := make(chan error, 1)
	go func() { answered <- p.awaitReady(t.Context()) }()
	assert.NilError(t, p.dir.Remove(contract.PluginReady))
	// Times of files are those of the kernel's clock, which ticks a few hundred times a second.
	pace.Pause(t.Context(), 20*time.Millisecond)
	write()
	assert.NilError(t, <-answered)
}
