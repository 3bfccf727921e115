package loader_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"outrigger.dev/agents/driver-loader/internal/loader"
	"outrigger.dev/agents/driver-loader/internal/loader/loadertest"
)

// started is a driver whose daemons are missing until they are started.
type started struct {
	recorded
	runs bool
}

func (s *started) Missing() []string {
	if s.runs {
		return nil
	}
	return []string{"nvidia-gridd"}
}

func (s *started) Start(ctx context.Context) (skipped, err error) {
	s.runs = true
	return s.recorded.Start(ctx)
}

func TestTheDriverIsAskedWhileNobodyChangesIt(t *testing.T) {
	n := loadertest.New(t)
	n.Stock(t, one)
	cfg := n.Config("", slog.New(slog.DiscardHandler))
	daemons, told := &started{}, 0
	cfg.Daemons, cfg.Started = daemons, func() { told++ }
	l := loader.New(cfg, loadertest.Machine)
	asked := 0
	ask := func() error {
		return l.Undisturbed(t.Context(), func(context.Context) error { asked++; return nil })
	}
	if err := ask(); !errors.Is(err, loader.ErrNotDone) || asked != 0 {
		t.Errorf("before the driver is loaded: %v, asked %d times", err, asked)
	}
	for range 2 {
		if step := l.Settle(t.Context()); step.Kind != loader.Done {
			t.Fatal(step.Causes)
		}
		if err := ask(); err != nil {
			t.Error(err)
		}
	}
	if asked != 2 || told != 1 {
		t.Errorf("asked %d times, want 2; told %d times of daemons, want 1", asked, told)
	}
	daemons.runs = false
	if l.Settle(t.Context()); told != 2 {
		t.Errorf("told %d times after a daemon has ended, want 2", told)
	}
	// While it is asked, no step is taken; and who claims NVML waits for the share.
	err := l.Undisturbed(t.Context(), func(ctx context.Context) error {
		grant, err := cfg.Contract.NVML().Claim(ctx, "other", "test", time.Millisecond)
		if err == nil {
			err = errors.Join(errors.New("nvml was granted to another agent"), grant.Release())
			t.Error(err)
			return nil
		}
		return grant.Release()
	})
	assert.NilError(t, err)
	grant, err := cfg.Contract.NVML().Claim(t.Context(), "other", "test", time.Second)
	assert.NilError(t, err)
	if err := ask(); !errors.Is(err, loader.ErrNotDone) || asked != 2 {
		t.Errorf("while NVML is claimed: %v, asked %d times", err, asked)
	}
	assert.NilError(t, grant.Release())
}
