// Package app wires the agent: it makes the configurations of the packages from the flags,
// and connects them to the loops in internal/upkeep.
package app

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/urfave/cli/v2"
	"golang.org/x/sync/errgroup"

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
	owner    *upkeep.Owner
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
	// installed is closed once the tools are there, to which specs and engine refer.
	installed chan struct{}
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
	if t.owner, err = s.owner(c, log); err != nil {
		return nil, err
	}
	a := &agent.Agent{
		Run: t.run, Ready: t.status.Err, Effective: s.host.Effective(),
		Collectors: []prometheus.Collector{upkeep.NewMetrics(t.status, t.specs)},
		Reload: func(context.Context) error {
			log.Info("reloading")
			t.tools.Again()
			t.specs.Reload()
			t.engine.again()
			return nil
		},
	}
	if c.Bool("no-daemon") {
		a.Once, a.Run = true, t.once
	}
	return a, nil
}

func newToolkit(s settings, log *slog.Logger) (*toolkit, error) {
	t := &toolkit{
		settings: s, log: log, lock: &upkeep.Lock{Path: s.pidFile}, installed: make(chan struct{}),
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

func (t *toolkit) run(ctx context.Context) error {
	// The watch of the owner outlives ctx: when the agent is stopped, the end of the
	// DaemonSet may be on its way.
	watched, stop := context.WithCancel(context.WithoutCancel(ctx))
	var watching sync.WaitGroup
	watching.Go(func() { t.owner.Watch(watched) })
	defer watching.Wait()
	defer stop()
	err := t.lock.Take(ctx, t.log, func(err error) { t.status.Set(upkeep.Sole, err) })
	if err != nil {
		return nil // ctx has ended
	}
	t.status.Set(upkeep.Sole, nil)
	err = t.keep(ctx)
	// Otherwise the fact stays: what it names does, and the next pod takes it over.
	if t.owner.Deleted(context.WithoutCancel(ctx)) {
		t.withdraw()
		err = errors.Join(err, t.undoing().Run(ctx))
	}
	return errors.Join(err, t.lock.Release())
}

// keep keeps all parts until ctx ends.
func (t *toolkit) keep(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return t.fact.Keep(ctx) })
	g.Go(func() error { return t.tools.Run(ctx) })
	if t.nri != nil {
		// At once: until it is connected, containers start without their GPUs.
		g.Go(func() error { return t.nri.Run(ctx) })
	}
	g.Go(t.after(ctx, func() error {
		if !t.settings.cdi {
			return t.leave(ctx)
		}
		return t.specs.Run(ctx)
	}))
	g.Go(t.after(ctx, func() error { return t.engine.run(ctx) }))
	return g.Wait()
}

// leave removes the specs of an earlier start.
func (t *toolkit) leave(ctx context.Context) error {
	if err := t.writer.Remove(); err != nil {
		t.log.Error("cannot remove the CDI specs of an earlier start", "err", err)
	}
	<-ctx.Done()
	return nil
}

// after returns a function that calls f once the tools are installed.
func (t *toolkit) after(ctx context.Context, f func() error) func() error {
	return func() error {
		select {
		case <-ctx.Done():
			return nil
		case <-t.installed:
			return f()
		}
	}
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
