package app

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"outrigger.dev/agents/container-toolkit/internal/engine"
	"outrigger.dev/agents/container-toolkit/internal/toolconfig"
	"outrigger.dev/agents/container-toolkit/internal/upkeep"
	"outrigger.dev/pkg/cmdline"
)

const (
	// engineCheck is how often the agent asks the running engine for its loaded config, even
	// if no file has changed.
	engineCheck = 5 * time.Minute
	// engineLimit limits one change of the engine's config, including the time to load it.
	engineLimit = 2 * time.Minute
)

// engineSettings holds the settings for the config of the container engine.
type engineSettings struct {
	engine.Config
	// enabled is true if the agent configures an engine. Otherwise it reverts the changes of
	// an earlier start. untouched is the value of --no-runtime-config.
	enabled, untouched bool
	// detect selects the engine that runs on the node, if the configured engine does not run.
	detect bool
}

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

// configureEngine reconciles the engine's config.
func (t *toolkit) configureEngine(ctx context.Context) (upkeep.Result, error) {
	ctx, cancel := context.WithTimeout(ctx, engineLimit)
	defer cancel()
	p, err := t.engine.Reconcile(ctx)
	if !p.Empty() {
		for _, note := range p.Notes {
			t.log.Info("container engine configured with a restriction", "note", note)
		}
	}
	watched, _ := t.engine.Watch(ctx) // after an error, the files of the last call stay watched
	return upkeep.Result{After: engineCheck, Watched: watched}, err
}

// toolConfig returns the config.toml of the tools, and the files whose changes can change it. The
// runtime executes the program of the engine's default runtime, unless a flag names programs. If the
// config of the engine cannot be read, the config of the last call stays.
func (t *toolkit) toolConfig(ctx context.Context) (config []byte, watched []string, err error) {
	s := t.settings
	if !s.engine.enabled || len(s.tools.runtimes) > 0 {
		return s.config, nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, engineLimit)
	defer cancel()
	watched, _ = t.engine.Watch(ctx) // the part runtime reports the error
	program, err := t.engine.LowLevel(ctx)
	if err != nil {
		t.log.Debug("cannot find the default runtime of the container engine", "err", err)
		return s.config, watched, nil
	}
	tools := s.tools
	if program != "" {
		others := slices.DeleteFunc(toolconfig.Default().Runtime.Runtimes, func(r string) bool { return r == program })
		tools.runtimes = append([]string{program}, others...)
	}
	s.config, err = tools.config()
	return s.config, watched, err
}

// restoreEngine reverts all changes of the engine's config.
func (t *toolkit) restoreEngine(ctx context.Context) error {
	if _, err := t.engine.Withdraw(ctx); err != nil {
		return fmt.Errorf("revert the config of the container engine: %w", err)
	}
	return nil
}
