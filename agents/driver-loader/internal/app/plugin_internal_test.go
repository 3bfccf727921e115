package app

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"outrigger.dev/pkg/contract"
	"outrigger.dev/pkg/pace"
)

func TestAFactOfBeforeTheUpgradeIsNotTheDevicePluginsAnswer(t *testing.T) {
	p := &pluginFact{dir: contract.Dir{Root: t.TempDir(), ProcRoot: "/proc"}, log: slog.New(slog.DiscardHandler)}
	write := func() {
		if err := p.dir.Write(contract.PluginReady, contract.Record{Writer: "device-plugin"}); err != nil {
			t.Fatal(err)
		}
	}
	write()
	if err := p.awaitReady(t.Context()); err != nil {
		t.Fatalf("a process that has swapped nothing: %v", err)
	}
	p.recordCurrent()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := p.awaitReady(ended); err == nil {
		t.Error("the fact of before counts")
	}
	answered := make(chan error, 1)
	go func() { answered <- p.awaitReady(t.Context()) }()
	if err := p.dir.Remove(contract.PluginReady); err != nil {
		t.Fatal(err)
	}
	// Times of files are those of the kernel's clock, which ticks a few hundred times a second.
	pace.Pause(t.Context(), 20*time.Millisecond)
	write()
	if err := <-answered; err != nil {
		t.Error(err)
	}
}
