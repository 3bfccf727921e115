package app

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"

	"github.com/urfave/cli/v2"

	"outrigger.dev/agents/device-plugin/internal/inventory"
	"outrigger.dev/agents/device-plugin/internal/mps"
	"outrigger.dev/agents/device-plugin/internal/parts"
	"outrigger.dev/pkg/agent"
	"outrigger.dev/pkg/agent/driver"
	"outrigger.dev/pkg/cmdline"
	"outrigger.dev/pkg/config"
	"outrigger.dev/pkg/reconcile"
)

const mpsName = "mps-control-daemon"

// MPS describes the supervisor of the MPS control daemons. It has the same flags and config
// as the device plugin, so that both derive the same resources.
func MPS() agent.App {
	s := &settings{}
	return agent.App{
		Name:  mpsName,
		Usage: "runs the MPS control daemons of the GPUs that the device plugin shares by MPS",
		Examples: []cmdline.Example{
			{Purpose: "Run the daemons of the GPUs that a config file shares by MPS", Line: "mps-control-daemon --config-file=config.yaml"},
		},
		Flags:  s.flags(),
		Host:   &s.gpus.Host,
		Listen: ":9412",
		New:    s.newMPS,
		Source: s.source,
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

func (s *settings) newMPS(c *cli.Context, log *slog.Logger) (*agent.Agent, error) {
	api, cfg, err := s.open(c.Context, log)
	if err != nil {
		return nil, err
	}
	base := parts.New(cfg)
	m := &mpsAgent{driver: s.driver, log: log}
	m.loop = reconcile.New(reconcile.Config{
		Name: "daemons", Starting: inventory.State{}.Unusable(), Log: log,
		Step: func(ctx context.Context) (reconcile.Result, error) { return m.serve(ctx, base.Inventory.State()) },
	})
	base.Inventory.Notify(m.loop.Wake)
	return &agent.Agent{
		// The plugin serves the metrics of devices.
		Parts: append(base.Parts,
			agent.Part{Name: "daemons", Run: m.run, Ready: m.ready},
			agent.Part{
				Name: "config", Ready: api.Failing, Reload: s.live.Reload,
				Run: func(ctx context.Context) error { return s.run(ctx, s.follower(base.Inventory, log)) },
			},
		),
		Effective: s.effective(),
	}, nil
}

// mpsAgent runs the daemons for the newest state of the inventory.
type mpsAgent struct {
	driver *driver.Driver
	loop   *reconcile.Loop
	// supervisor is nil until a GPU is shared by MPS, or compute modes are to be restored.
	// It is set once.
	supervisor atomic.Pointer[mps.Supervisor]
	// idle is set once the log says that no GPU is shared by MPS.
	idle bool
	log  *slog.Logger
}

func (m *mpsAgent) run(ctx context.Context) error {
	err := m.loop.Run(ctx)
	if s := m.supervisor.Load(); s != nil {
		s.Wait()
	}
	return err
}

// serve runs the daemons for the state s.
func (m *mpsAgent) serve(ctx context.Context, s inventory.State) (reconcile.Result, error) {
	if s.Node == nil {
		return reconcile.Result{Pending: s.Unusable()}, nil
	}
	if m.supervisor.Load() == nil {
		shared := s.Config.Sharing.Strategy == config.SharingMPS
		if !shared && !mps.ModesRecorded(m.driver.Contract) {
			m.logIdle()
			return reconcile.Result{}, nil
		}
		err := m.start(s.Config.MPSRoot)
		if err != nil && !shared {
			m.log.Warn("cannot restore the compute modes of gpus that an earlier process shared by mps", "err", err)
			m.logIdle()
			return reconcile.Result{}, nil
		}
		if err != nil {
			return reconcile.Result{}, reconcile.Fatal(fmt.Errorf("start MPS: %w", err))
		}
	}
	m.supervisor.Load().Apply(ctx, mps.Plan(s.Node, s.Set))
	return reconcile.Result{}, nil
}

// logIdle logs once that no GPU is shared by MPS.
func (m *mpsAgent) logIdle() {
	if !m.idle {
		m.idle = true
		m.log.Info("no gpus of this node are shared by mps, waiting for a change")
	}
}

func (m *mpsAgent) start(root string) error {
	programs, err := mps.FindPrograms(m.driver.Root.CtrPath(), root)
	if err != nil {
		return err
	}
	m.supervisor.Store(mps.NewSupervisor(mps.Config{Root: root, Programs: programs, Contract: m.driver.Contract, Log: m.log}))
	return nil
}

// ready returns nil while every daemon answers, and otherwise the reason.
func (m *mpsAgent) ready() error {
	err := m.loop.Ready()
	if s := m.supervisor.Load(); s != nil && err == nil {
		return s.Ready()
	}
	return err
}
