package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"

	"github.com/urfave/cli/v2"
	"golang.org/x/sync/errgroup"

	"outrigger.dev/agents/device-plugin/internal/inventory"
	"outrigger.dev/agents/device-plugin/internal/mps"
	"outrigger.dev/pkg/agent"
	"outrigger.dev/pkg/agent/driver"
	"outrigger.dev/pkg/config"
)

const mpsName = "mps-control-daemon"

// MPS describes the supervisor of the MPS control daemons. It has the flags and the
// config of the plugin, so that both derive the same resources.
func MPS() agent.App {
	return agent.App{
		Name:    mpsName,
		Usage:   "runs the MPS control daemons of the GPUs that the device plugin shares by MPS",
		Flags:   flags(),
		Aliases: aliases(),
		Listen:  ":9412",
		New:     newMPS,
		Source:  App().Source,
	}
}

func newMPS(c *cli.Context, log *slog.Logger) (*agent.Agent, error) {
	parts, err := newParts(c, log)
	if err != nil {
		return nil, err
	}
	s := parts.settings
	inv := inventory.New(parts.inventory(log))
	m := &mpsAgent{settings: s, inventory: inv, log: log}
	m.ready.set(inventory.State{}.Unusable)
	return &agent.Agent{
		Run: func(ctx context.Context) error {
			g, ctx := errgroup.WithContext(ctx)
			g.Go(func() error { return inv.Run(ctx) })
			g.Go(func() error { return s.live.Run(ctx, s.follower(inv, log)) })
			g.Go(func() error { return m.run(ctx) })
			return errors.Join(g.Wait(), parts.source.Close())
		},
		Ready:  m.ready.get,
		Health: driver.Checks(parts.source),
		Reload: func(context.Context) error { s.live.Reload(); inv.Reload(); return nil },
		// The plugin serves the metrics of devices.
		Effective: s.effective(c),
	}, nil
}

// mpsAgent runs the daemons for the newest state of the inventory.
type mpsAgent struct {
	settings   settings
	inventory  *inventory.Inventory
	supervisor *mps.Supervisor
	ready      readiness
	// idle is set once the log says that no GPU is shared by MPS.
	idle bool
	log  *slog.Logger
}

func (m *mpsAgent) run(ctx context.Context) error {
	defer func() {
		if m.supervisor != nil {
			m.supervisor.Wait()
		}
	}()
	for {
		select {
		case <-ctx.Done():
			return nil
		case s := <-m.inventory.States():
			if err := m.take(ctx, s); err != nil {
				return err
			}
		}
	}
}

// take makes the daemons those of s.
func (m *mpsAgent) take(ctx context.Context, s inventory.State) error {
	if s.Node == nil {
		m.ready.set(s.Unusable)
		return nil
	}
	if s.Config.Sharing.Strategy != config.SharingMPS && m.supervisor == nil {
		m.ready.set(nil)
		if !m.idle {
			m.idle = true
			m.log.Info("no gpus of this node are shared by mps, waiting for a change")
		}
		return nil
	}
	if m.supervisor == nil {
		if err := m.start(s.Config.MPSRoot); err != nil {
			return fmt.Errorf("start MPS: %w", err)
		}
	}
	m.supervisor.Apply(ctx, mps.Plan(s.Node, s.Set))
	m.ready.set(m.supervisor.Ready)
	return nil
}

func (m *mpsAgent) start(root string) error {
	if err := mps.MountShm(root); err != nil {
		return err
	}
	programs, err := mps.FindPrograms(m.settings.driver.Root.CtrPath(), root)
	if err != nil {
		return err
	}
	m.supervisor = mps.NewSupervisor(mps.Config{Root: root, Programs: programs, Contract: m.settings.driver.Contract, Log: m.log})
	return nil
}

// readiness is what /readyz answers: a function that is set from another
// goroutine than it is asked from.
type readiness struct{ of atomic.Pointer[func() error] }

func (r *readiness) set(of func() error) { r.of.Store(&of) }

func (r *readiness) get() error {
	of := r.of.Load()
	if of == nil || *of == nil {
		return nil
	}
	return (*of)()
}
