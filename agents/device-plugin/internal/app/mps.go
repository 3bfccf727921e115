package app

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"

	"github.com/urfave/cli/v2"

	"outrigger.dev/agents/device-plugin/internal/inventory"
	"outrigger.dev/agents/device-plugin/internal/mps"
	"outrigger.dev/pkg/agent"
	"outrigger.dev/pkg/agent/driver"
	"outrigger.dev/pkg/config"
	"outrigger.dev/pkg/pace"
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
		Commands: []*cli.Command{{
			Name:   "mount-shm",
			Usage:  "do nothing: the init container of NVIDIA's chart calls it, and the agent mounts the shared memory itself",
			Action: mountShm,
		}},
	}
}

func mountShm(c *cli.Context) error {
	_, _ = fmt.Fprintln(c.App.Writer, "mount-shm: nothing to do: "+mpsName+" mounts the shared memory of each daemon itself")
	return nil
}

func newMPS(c *cli.Context, log *slog.Logger) (*agent.Agent, error) {
	parts, err := newParts(c, log)
	if err != nil {
		return nil, err
	}
	s := parts.settings
	inv := inventory.New(parts.inventory(log))
	m := &mpsAgent{settings: s, inventory: inv, ready: pace.NewReadiness(inventory.State{}.Unusable()), log: log}
	return &agent.Agent{
		// The plugin serves the metrics of devices.
		Parts: []agent.Part{
			{Name: "inventory", Run: inv.Run, Health: driver.Checks(parts.source), Reload: inv.Reload, Close: parts.source.Close},
			{Name: "daemons", Run: m.run, Ready: m.isReady},
			{
				Name: "config", Ready: parts.api.Failing, Reload: s.live.Reload,
				Run: func(ctx context.Context) error { return s.live.Run(ctx, s.follower(inv, log)) },
			},
		},
		Effective: s.effective(c),
	}, nil
}

// mpsAgent runs the daemons for the newest state of the inventory.
type mpsAgent struct {
	settings  settings
	inventory *inventory.Inventory
	// supervisor is nil until something is shared by MPS. It is set once.
	supervisor atomic.Pointer[mps.Supervisor]
	// ready is what is missing before there are daemons to ask.
	ready *pace.Readiness
	// idle is set once the log says that no GPU is shared by MPS.
	idle bool
	log  *slog.Logger
}

func (m *mpsAgent) run(ctx context.Context) error {
	defer func() {
		if s := m.supervisor.Load(); s != nil {
			s.Wait()
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

// take runs the daemons that s needs.
func (m *mpsAgent) take(ctx context.Context, s inventory.State) error {
	if s.Node == nil {
		m.ready.Set(s.Unusable())
		return nil
	}
	if m.supervisor.Load() == nil {
		shared := s.Config.Sharing.Strategy == config.SharingMPS
		if !shared && !mps.LeftModes(m.settings.driver.Contract) {
			m.rest()
			return nil
		}
		err := m.start(s.Config.MPSRoot)
		if err != nil && !shared {
			m.log.Warn("cannot restore the compute modes of gpus that an earlier process shared by mps", "err", err)
			m.rest()
			return nil
		}
		if err != nil {
			return fmt.Errorf("start MPS: %w", err)
		}
	}
	m.supervisor.Load().Apply(ctx, mps.Plan(s.Node, s.Set))
	m.ready.Set(nil)
	return nil
}

// rest waits until GPUs are shared by MPS.
func (m *mpsAgent) rest() {
	m.ready.Set(nil)
	if !m.idle {
		m.idle = true
		m.log.Info("no gpus of this node are shared by mps, waiting for a change")
	}
}

func (m *mpsAgent) start(root string) error {
	programs, err := mps.FindPrograms(m.settings.driver.Root.CtrPath(), root)
	if err != nil {
		return err
	}
	m.supervisor.Store(mps.NewSupervisor(mps.Config{Root: root, Programs: programs, Contract: m.settings.driver.Contract, Log: m.log}))
	return nil
}

// isReady returns nil while every daemon answers, and otherwise what is missing.
func (m *mpsAgent) isReady() error {
	if err := m.ready.Err(); err != nil {
		return err
	}
	if s := m.supervisor.Load(); s != nil {
		return s.Ready()
	}
	return nil
}
