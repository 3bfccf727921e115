// Package app wires the agent: it derives the configurations of the packages from the flags,
// and connects them to the loops in internal/upkeep.
package app

import (
	"cmp"
	"errors"
	"log/slog"
	"time"

	"github.com/urfave/cli/v2"

	"outrigger.dev/agents/container-toolkit/internal/engine"
	"outrigger.dev/agents/container-toolkit/internal/generate"
	"outrigger.dev/agents/container-toolkit/internal/install"
	"outrigger.dev/agents/container-toolkit/internal/nri"
	"outrigger.dev/agents/container-toolkit/internal/upkeep"
	"outrigger.dev/pkg/agent"
	"outrigger.dev/pkg/cmdline"
	"outrigger.dev/pkg/contract"
	"outrigger.dev/pkg/gpu"
)

const name = "container-toolkit"

// stopLimit limits the time to revert all changes on the node, including a reload of the
// container engine.
const stopLimit = 25 * time.Second

// App describes the agent.
func App() agent.App {
	s := &settings{}
	return agent.App{
		Name:  name,
		Usage: "installs the container toolkit on this node, and keeps CDI specs and the container engine's config up to date",
		Examples: []cmdline.Example{
			{Purpose: "Install the tools, and configure the container engine that runs on this node", Line: "container-toolkit --toolkit-install-dir=/usr/local/nvidia --detect-runtime"},
			{Purpose: "Only install the tools, and write CDI specs", Line: "container-toolkit --toolkit-install-dir=/usr/local/nvidia --cdi-enabled --no-runtime-config"},
			{Purpose: "Install and configure once, without an agent that keeps running", Line: "container-toolkit --toolkit-install-dir=/usr/local/nvidia --no-daemon"},
		},
		Flags:     s.flags(),
		Host:      &s.host,
		Listen:    ":9415",
		New:       s.newAgent,
		StopLimit: stopLimit,
		Source: func(c *cli.Context, log *slog.Logger) (gpu.Source, error) {
			if err := s.complete(c); err != nil {
				return nil, err
			}
			return s.source(log), nil
		},
	}
}

// toolkit is the agent with its parts.
type toolkit struct {
	settings *settings
	log      *slog.Logger
	lock     upkeep.Lock
	status   *upkeep.Status
	fact     *contract.Keeper

	installer *install.Installer
	writer    *generate.Specs
	nodes     *nodeKeeper
	specs     *upkeep.SpecsKeeper
	engine    *engine.Keeper
	// nri is nil if the NRI plugin is turned off.
	nri *nri.Plugin
	// referred is true if a part that refers to the tools could not be removed. The tools then
	// stay.
	referred bool
}

func (s *settings) newAgent(c *cli.Context, log *slog.Logger) (*agent.Agent, error) {
	if err := s.complete(c); err != nil {
		return nil, err
	}
	t, err := newToolkit(s, log)
	if err != nil {
		return nil, err
	}
	if s.once {
		parts := []agent.Part{t.lockPart(), {Name: "toolkit", Run: t.once}}
		return &agent.Agent{Once: true, Parts: parts}, nil
	}
	owner, err := s.owner(log)
	if err != nil {
		return nil, err
	}
	return &agent.Agent{Parts: t.parts(), Owner: owner}, nil
}

func newToolkit(s *settings, log *slog.Logger) (*toolkit, error) {
	t := &toolkit{
		settings: s, log: log, lock: upkeep.Lock{Path: s.pidFile}, nodes: s.nodeKeeper(log),
		fact: s.contract.NewKeeper(s.contract.Path(contract.ToolkitReady), log),
		installer: install.New(install.Config{
			Dir: s.dir, HostDir: s.hostDir(), Source: s.sourceRoot, Config: s.config, Log: log,
		}),
		writer: generate.New(generate.Config{Root: s.root, Folder: s.cdiDir, Options: s.kinds, Log: log}),
	}
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
	source := s.source(log)
	if t.nodes != nil {
		source = withNodes{Source: source, nodes: t.nodes}
	}
	t.specs = upkeep.NewSpecsKeeper(upkeep.SpecsConfig{
		Source: source, Writer: t.writer, WatchChanges: s.watchDriver(log), Status: t.status, Log: log,
	})
	var errNRI, errEngine error
	t.nri, errNRI = s.nriPlugin(t.status, log)
	t.engine, errEngine = s.engine.keeper(log)
	return t, cmp.Or(errNRI, errEngine)
}

// publish reports to the other agents whether the toolkit is ready. While a part is pending,
// the fact ToolkitReady that an earlier process of this agent published stays.
func (t *toolkit) publish(err error) {
	switch {
	case errors.Is(err, upkeep.ErrPending):
		return
	case err != nil:
		if err := t.withdraw(); err != nil {
			t.log.Error("cannot remove the fact toolkit-ready of an earlier process", "err", err)
		}
		return
	}
	// The fact is published after the tools are installed, and withdrawn before they are removed,
	// because the device plugin names the hook in its CDI specs.
	r := contract.Record{Writer: name, Values: map[string]string{contract.KeyCDIHook: t.settings.hook()}}
	if n := t.specs.Node(); n != nil {
		r.DriverVersion = n.Driver.Version
	}
	t.fact.Publish(r)
}

// withdraw removes the fact, even if an earlier process of this agent wrote it.
func (t *toolkit) withdraw() error {
	t.fact.Withdraw()
	facts := t.settings.contract
	if facts.Read(contract.ToolkitReady).State != contract.WriterDead {
		return nil
	}
	return facts.Remove(contract.ToolkitReady)
}
