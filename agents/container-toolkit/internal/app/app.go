// Package app wires the agent: it makes the configurations of the packages from the flags,
// and connects them to the loops in internal/upkeep.
package app

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/urfave/cli/v2"

	"outrigger.dev/agents/container-toolkit/internal/generate"
	"outrigger.dev/agents/container-toolkit/internal/install"
	"outrigger.dev/agents/container-toolkit/internal/nri"
	"outrigger.dev/agents/container-toolkit/internal/upkeep"
	"outrigger.dev/pkg/agent"
	"outrigger.dev/pkg/contract"
	"outrigger.dev/pkg/gpu"
)

const name = "container-toolkit"

// stopLimit is how long the agent may take to take back all that it has made on the node,
// which ends with a reload of the container engine.
const stopLimit = 25 * time.Second

// App describes the agent.
func App() agent.App {
	return agent.App{
		Name:      name,
		Usage:     "installs the container toolkit on this node, and keeps CDI specs and the container engine's config up to date",
		Flags:     flags(),
		Aliases:   aliases(),
		Listen:    ":9415",
		New:       newAgent,
		StopLimit: stopLimit,
		Source: func(c *cli.Context, log *slog.Logger) (gpu.Source, error) {
			s, err := read(c)
			if err != nil {
				return nil, err
			}
			return s.source(log), nil
		},
	}
}

// toolkit is the agent.
type toolkit struct {
	settings settings
	log      *slog.Logger
	lock     *upkeep.Lock
	status   *upkeep.Status
	fact     *contract.Keeper

	installer *install.Installer
	tools     *upkeep.Keeper
	writer    *generate.Specs
	nodes     *nodeKeeper
	specs     *upkeep.SpecsKeeper
	engine    *engineKeeper
	// nri is nil unless it is turned on.
	nri *nri.Plugin
	// locked is closed once this is the only toolkit of the node, and installed once the tools are
	// there, to which specs and engine refer.
	locked, installed chan struct{}
}

func newAgent(c *cli.Context, log *slog.Logger) (*agent.Agent, error) {
	s, err := read(c)
	if err != nil {
		return nil, err
	}
	t, err := newToolkit(s, log)
	if err != nil {
		return nil, err
	}
	if c.Bool("no-daemon") {
		return &agent.Agent{Once: true, Parts: []agent.Part{{Name: "toolkit", Run: t.once}}, Effective: s.host.Effective()}, nil
	}
	owner, err := s.owner(c, log)
	if err != nil {
		return nil, err
	}
	return &agent.Agent{Parts: t.parts(), Owner: owner, Effective: s.host.Effective()}, nil
}

func newToolkit(s settings, log *slog.Logger) (*toolkit, error) {
	t := &toolkit{
		settings: s, log: log, lock: &upkeep.Lock{Path: s.pidFile}, locked: make(chan struct{}), installed: make(chan struct{}),
		installer: install.New(install.Config{
			Dir: s.dir, HostDir: s.hostDir(), Source: s.sourceRoot, Config: s.config, Log: log,
		}),
	}
	t.fact = s.contract.NewKeeper(s.contract.Path(contract.ToolkitReady), log)
	parts := []upkeep.Part{upkeep.Sole, upkeep.Tools}
	if s.cdi {
		parts = append(parts, upkeep.Specs)
	}
	if s.engine.enabled {
		parts = append(parts, upkeep.Engine)
	}
	if s.nri.enabled {
		parts = append(parts, upkeep.NRI)
	}
	t.status = upkeep.NewStatus(log, t.publish, parts...)
	t.writer = generate.New(generate.Config{Root: s.root, Folder: s.cdiDir, Options: s.kinds, Log: log})
	source := s.source(log)
	if t.nodes = s.nodeKeeper(log); t.nodes != nil {
		source = withNodes{Source: source, nodes: t.nodes}
	}
	t.tools = upkeep.NewKeeper(upkeep.Keeping{
		Part: upkeep.Tools, Put: t.install, Watched: t.installer.Watched, Status: t.status, Log: log,
	})
	t.specs = upkeep.NewSpecsKeeper(upkeep.SpecsConfig{
		Source: source, Writer: t.writer, WatchChanges: s.watchDriver(log), Status: t.status, Log: log,
	})
	var err error
	if t.nri, err = s.nriPlugin(t.status, log); err != nil {
		return nil, err
	}
	t.engine, err = newEngineKeeper(s, t.status, log)
	return t, err
}

// publish tells the other agents whether the toolkit is ready. What an earlier process of
// this agent has left is as good as it was until all parts were checked.
func (t *toolkit) publish(err error) {
	switch {
	case errors.Is(err, upkeep.ErrPending):
		return
	case err != nil:
		t.withdraw()
		return
	}
	// Published once the tools are installed, and withdrawn before they go: the device
	// plugin then names the hook in its specs.
	r := contract.Record{Writer: name, Values: map[string]string{contract.KeyCDIHook: t.settings.hook()}}
	if n := t.specs.Node(); n != nil {
		r.DriverVersion = n.Driver.Version
	}
	t.fact.Publish(r)
}

// withdraw removes the fact, also that of an earlier process of this agent.
func (t *toolkit) withdraw() {
	t.fact.Withdraw()
	facts := t.settings.contract
	if facts.Read(contract.ToolkitReady).State != contract.WriterDead {
		return
	}
	if err := facts.Remove(contract.ToolkitReady); err != nil {
		t.log.Error("cannot withdraw the fact of an earlier process", "err", err)
	}
}

// install installs the tools.
func (t *toolkit) install(context.Context) (wrote bool, again time.Duration, err error) {
	wrote, again, err = t.installer.Install()
	if err == nil {
		select {
		case <-t.installed:
		default:
			close(t.installed)
		}
	}
	return wrote, again, err
}

// parts returns the parts of the agent. Before anything is changed, it is the only toolkit of the
// node; before anything refers to the tools, they are there.
func (t *toolkit) parts() []agent.Part {
	parts := []agent.Part{
		{
			Name: "lock", Run: t.take, Started: t.locked, Ready: t.status.Err, Withdraw: t.undo, Close: t.lock.Release,
			Collectors: []prometheus.Collector{upkeep.NewMetrics(t.status, t.specs)},
		},
		{Name: "fact toolkit-ready", Run: t.fact.Keep},
	}
	if t.nri != nil {
		// Before the tools: until it is connected, containers start without their GPUs.
		parts = append(parts, agent.Part{Name: "nri", Run: t.nri.Run})
	}
	specs := agent.Part{Name: "specs", Run: t.specs.Run, Reload: t.specs.Reload}
	if !t.settings.cdi {
		specs = agent.Part{Name: "specs", Run: t.removeSpecs}
	}
	return append(parts,
		agent.Part{Name: "tools", Run: t.tools.Run, Started: t.installed, Reload: t.tools.Again},
		specs,
		agent.Part{Name: "engine", Run: t.engine.run, Reload: t.engine.again},
	)
}

// take takes the lock.
func (t *toolkit) take(ctx context.Context) error {
	if err := t.lock.Take(ctx, t.log, func(err error) { t.status.Set(upkeep.Sole, err) }); err != nil {
		return err
	}
	t.status.Set(upkeep.Sole, nil)
	close(t.locked)
	return nil
}

// undo takes everything back, if this process could change it.
func (t *toolkit) undo(ctx context.Context) error {
	select {
	case <-t.locked:
	default:
		return nil
	}
	t.withdraw()
	return t.undoing().Run(ctx)
}

// removeSpecs removes the specs of an earlier start.
func (t *toolkit) removeSpecs(context.Context) error {
	if err := t.writer.Remove(); err != nil {
		t.log.Error("cannot remove the CDI specs of an earlier start", "err", err)
	}
	return nil
}

// once does everything once.
func (t *toolkit) once(ctx context.Context) error {
	if err := t.lock.Take(ctx, t.log, func(error) {}); err != nil {
		return err
	}
	_, _, err := t.install(ctx)
	if err == nil && t.settings.cdi {
		err = t.specs.Once(ctx)
	}
	if err == nil {
		err = t.engine.once(ctx)
	}
	return errors.Join(err, t.lock.Release())
}

// undoing describes how everything is taken back.
func (t *toolkit) undoing() upkeep.Undoing {
	s := t.settings
	return upkeep.Undoing{
		Steps: []upkeep.Undo{
			{Part: upkeep.Engine, Do: t.engine.undo},
			{Part: upkeep.Specs, Do: func(context.Context) error {
				// CUDA has run through the runtime, whoever has reported that.
				return errors.Join(t.writer.Remove(), t.nodes.undo(), s.contract.Remove(contract.CUDAReady))
			}},
		},
		Users:       func() []string { return install.Users(s.host.ProcRoot, s.hostRoot, s.dir.Tools()) },
		RemoveTools: t.installer.Remove,
		ToolsDir:    s.dir.Tools(),
		Log:         t.log,
	}
}
