package app

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/urfave/cli/v2"

	"outrigger.dev/agents/container-toolkit/internal/engine"
	"outrigger.dev/agents/container-toolkit/internal/engine/live"
	"outrigger.dev/agents/container-toolkit/internal/upkeep"
	"outrigger.dev/pkg/agent"
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
	enabled bool
	// detect finds the engine of the node, if that of the Config does not run.
	detect bool
}

func readEngine(c *cli.Context, tools string) (engineSettings, error) {
	config, enabled, err := engineConfig(c, tools)
	if err != nil {
		return engineSettings{}, agent.Usagef("%s", err)
	}
	config.Ask = live.Ask
	return engineSettings{Config: config, enabled: enabled, detect: c.Bool("detect-runtime")}, nil
}

// engineKeeper keeps the config of the container engine. If that is to be left alone, it
// takes back what an earlier start has changed in it.
type engineKeeper struct {
	enabled bool
	log     *slog.Logger
	keeper  *engine.Keeper
	loop    *upkeep.Keeper
	watched []string
}

func newEngineKeeper(s settings, status *upkeep.Status, log *slog.Logger) (*engineKeeper, error) {
	k := &engineKeeper{enabled: s.engine.enabled, log: log}
	config := s.engine.Config
	if s.engine.detect {
		config = config.Detect(log)
	}
	var err error
	if k.keeper, err = engine.New(config, log); err != nil {
		return nil, agent.Usagef("%s", err)
	}
	k.loop = upkeep.NewKeeper(upkeep.Keeping{
		Part: upkeep.Engine, Put: k.put, Watched: func() []string { return k.watched }, Status: status, Log: log,
	})
	return k, nil
}

// again causes another look at the config. It does not block.
func (k *engineKeeper) again() { k.loop.Again() }

// run keeps the config until ctx ends.
func (k *engineKeeper) run(ctx context.Context) error {
	if k.enabled {
		return k.loop.Run(ctx)
	}
	if err := k.undo(ctx); err != nil {
		k.log.Error("cannot take back what an earlier start changed in the container engine's config", "err", err)
	}
	<-ctx.Done()
	return nil
}

func (k *engineKeeper) put(ctx context.Context) (wrote bool, again time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, engineLimit)
	defer cancel()
	p, err := k.keeper.Keep(ctx)
	if wrote = !p.Empty(); wrote {
		for _, note := range p.Notes {
			k.log.Info("container engine configured with a restriction", "note", note)
		}
	}
	if watched, err := k.keeper.Watch(ctx); err == nil {
		k.watched = watched
	}
	return wrote, engineCheck, err
}

// once configures the engine once.
func (k *engineKeeper) once(ctx context.Context) error {
	if !k.enabled {
		return k.undo(ctx)
	}
	_, _, err := k.put(ctx)
	return err
}

// undo takes back all changes of the config.
func (k *engineKeeper) undo(ctx context.Context) error {
	if _, err := k.keeper.Withdraw(ctx); err != nil {
		return fmt.Errorf("take back the config of the container engine: %w", err)
	}
	return nil
}
