package app

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"gotest.tools/v3/assert"

	"outrigger.dev/agents/dcgm-exporter/internal/counters"
	"outrigger.dev/pkg/agent/agenttest"
)

// A list can change after the agent has read it, and before the agent watches it.
func TestAListThatChangesAtTheStartIsReadAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "list.csv")
	write := func(text string) {
		assert.NilError(t, os.WriteFile(path+".new", []byte(text), 0o600))
		assert.NilError(t, os.Rename(path+".new", path))
	}
	write("DCGM_FI_DEV_GPU_TEMP, gauge, t\n")
	l := list{path: path, log: slog.New(slog.DiscardHandler), changed: make(chan struct{}, 1)}
	_, changed, err := l.read(t.Context())
	assert.NilError(t, err)
	assert.Assert(t, changed)
	write("DCGM_FI_DEV_POWER_USAGE, gauge, p\n")
	ctx, stop := context.WithCancel(agenttest.Deadline(t))
	configured := make(chan []counters.Metric, 1)
	var following sync.WaitGroup
	following.Go(func() { assert.NilError(t, l.follow(ctx, func(metrics []counters.Metric) { configured <- metrics })) })
	defer func() { stop(); following.Wait() }()
	select {
	case metrics := <-configured:
		assert.Equal(t, len(metrics), 1)
		assert.Equal(t, metrics[0].Name, "DCGM_FI_DEV_POWER_USAGE")
	case <-ctx.Done():
		t.Fatal("the new list is not used")
	}
	l.reload() // an equal list changes nothing
	write("DCGM_FI_DEV_GPU_TEMP, gauge, t\n")
	select {
	case metrics := <-configured:
		assert.Equal(t, metrics[0].Name, "DCGM_FI_DEV_GPU_TEMP")
	case <-ctx.Done():
		t.Fatal("the last list is not used")
	}
}
