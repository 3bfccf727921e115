package app

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"outrigger.dev/agents/container-toolkit/internal/engine"
	"outrigger.dev/agents/container-toolkit/internal/upkeep"
	"outrigger.dev/pkg/cmdline"
)

const (
	// engineCheck is how often the running engine is asked what it has loaded, although
	// none of its files has changed.
	engineCheck = 5 * time.Minute
	// engineLimit bounds the work on its config, with the time that it needs to load it.
	engineLimit = 2 * time.Minute
)

// engineSettings say how to configure the container engine.
type engineSettings struct {
	engine.Config
	// enabled says that an engine is configured. If not, the Config serves to take back what was
	// configured before. untouched is set by the flags.
	enabled, untouched bool
	// detect finds the engine of the node, if that of the Config does not run.
	detect bool
}

// keeper returns the Keeper of the engine's config.
func (s engineSettings) keeper(log *slog.Logger) (*engine.Keeper, error) {
	config := s.Config
	if s.detect {
		config = config.Detect(log)
	}
	k, err := engine.New(config, log)
	if err != nil {
		return nil, cmdline.Usagef("%s", err)
	}
	return k, nil
}

// configureEngine makes the engine's config as it should be.
func (t *toolkit) configureEngine(ctx context.Context) (upkeep.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, engineLimit)
	defer cancel()
	p, err := t.engine.Reconcile(ctx)
	if !p.Empty() {
		for _, note := range p.Notes {
			t.log.Info("container engine configured with a restriction", "note", note)
		}
	}
	watched, _ := t.engine.Watch(ctx) // while that is not known, the files are those of before
	return upkeep.Result{After: engineCheck, Watched: watched}, err
}

// restoreEngine takes back all changes of the engine's config.
func (t *toolkit) restoreEngine(ctx context.Context) error {
	if _, err := t.engine.Withdraw(ctx); err != nil {
		return fmt.Errorf("take back the config of the container engine: %w", err)
	}
	return nil
}
