// Package app wires the agent: it derives the configurations of the packages from the flags,
// and connects the packages to the loop in internal/loader.
package app

import (
	"cmp"
	"context"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/urfave/cli/v2"

	"outrigger.dev/agents/driver-loader/internal/daemons"
	"outrigger.dev/agents/driver-loader/internal/license"
	"outrigger.dev/agents/driver-loader/internal/loader"
	"outrigger.dev/agents/driver-loader/internal/optional"
	"outrigger.dev/agents/driver-loader/internal/payload"
	"outrigger.dev/agents/driver-loader/internal/progress"
	"outrigger.dev/agents/driver-loader/internal/upgrade"
	"outrigger.dev/pkg/agent"
	"outrigger.dev/pkg/cause"
	"outrigger.dev/pkg/cmdline"
	"outrigger.dev/pkg/kube"
)

// reasonBuildFailed is the reason of the Event for modules that cannot be built.
const reasonBuildFailed = "GPUDriverBuildFailed"

// App describes the agent.
func App() agent.App { return newApp(&settings{}) }

func newApp(s *settings) agent.App {
	return agent.App{
		Name:  loader.Name,
		Usage: "builds, checks and loads the NVIDIA driver's kernel modules on this node, and mounts the driver root on the host for other agents",
		Examples: []cmdline.Example{
			{Purpose: "Print the next step and all problems of this node, and change nothing", Line: "driver-loader plan"},
			{Purpose: "Import a driver, then load it once", Line: "driver-loader import NVIDIA-Linux-x86_64-580.95.05.run && driver-loader load"},
			{Purpose: "Import a driver, and keep it loaded", Line: "driver-loader --payload=NVIDIA-Linux-x86_64-580.95.05.run"},
		},
		Flags:    s.flags(),
		Host:     &s.host,
		Listen:   ":9416",
		New:      s.newAgent,
		Commands: s.commands(),
	}
}

func (s *settings) newAgent(_ *cli.Context, log *slog.Logger) (*agent.Agent, error) {
	if s.grantUpgrades {
		return s.granter(log)
	}
	if err := s.complete(log); err != nil {
		return nil, err
	}
	return s.agent(log)
}

// agent returns the agent for completed settings.
func (s *settings) agent(log *slog.Logger) (*agent.Agent, error) {
	var up *upgrades
	report := func(e kube.Event) {
		if up != nil {
			up.events.Report(e)
		}
	}
	licenses := license.New(license.Config{
		Configured: s.daemons.Licensed, Query: s.daemons.Query, Log: log, Report: report,
	})
	s.config.Settled = func() {
		if up != nil {
			up.Changed()
		}
		licenses.Again()
	}
	s.config.Started = licenses.Again
	l := s.loader(report, log)
	ready := l.Ready
	imported := make(chan struct{})
	parts := []agent.Part{
		{Name: "import", Started: imported, Run: func(ctx context.Context) error {
			defer close(imported)
			if s.payload != "" {
				l.Import(ctx, s.importPayload)
			}
			return nil
		}},
		{Name: "licenses", Reload: licenses.Again, Collectors: []prometheus.Collector{license.NewMetrics(licenses)}, Run: func(ctx context.Context) error {
			return licenses.Run(ctx, l.Undisturbed)
		}},
	}
	if s.newKernels {
		kernels := loader.NewKernels(l)
		parts = append(parts, agent.Part{Name: "kernels", Run: kernels.Run, Collectors: []prometheus.Collector{loader.NewKernelMetrics(kernels)}})
	}
	a := &agent.Agent{}
	if s.upgrading() {
		var err error
		if up, err = s.upgrader(l, log); err != nil {
			return nil, err
		}
		ready = func() error { return up.ready(l.Ready()) }
		parts = append(parts,
			agent.Part{Name: "events", Run: up.events.Run},
			agent.Part{Name: "upgrade", Run: up.Run, Withdraw: up.Withdraw, Collectors: []prometheus.Collector{upgrade.NewMetrics(up.Upgrade)}},
		)
		a.Owner = up.owner
	}
	a.Parts = append(parts, agent.Part{
		Name: "loader", Run: l.Run, Ready: ready, Reload: l.Retry, Collectors: []prometheus.Collector{loader.NewMetrics(l), daemons.NewMetrics(s.daemons)},
	})
	return a, nil
}

// loader returns the loader, which reports modules that cannot be built or loaded.
func (s *settings) loader(report func(kube.Event), log *slog.Logger) *loader.Loader {
	s.config.Skipped = func(c cause.Cause) {
		report(kube.Event{Warning: true, Reason: string(c.Code), Message: c.Error()})
	}
	l := loader.New(s.config, s.machine)
	built := progress.Log(log, "building")
	s.config.Builder.Progress = func(p progress.Progress) {
		built(p)
		l.Report(p)
	}
	s.config.Builder.Failed = func(c cause.Cause) {
		report(kube.Event{Warning: true, Reason: reasonBuildFailed, Message: c.Line()})
	}
	return l
}

// importPayload imports the driver that the flags name. It makes this driver the desired one, unless the flags name
// another version.
func (s *settings) importPayload(ctx context.Context) error {
	if !s.disableVGPUCheck {
		version, err := payload.GuestVersion(ctx, s.payload)
		if err != nil {
			return err
		}
		s.desired.Version = cmp.Or(version, s.desired.Version)
	}
	p, _, err := s.importAll(ctx, s.store(), s.payload)
	s.desired.Payload = p.Digest
	return err
}

// importAll imports the driver and the sources of optional modules at a path. An image with such sources may
// have no driver.
func (s *settings) importAll(ctx context.Context, store payload.Store, from string) (payload.Payload, []optional.Source, error) {
	sources, err := optional.Import(ctx, s.config.Store, from)
	if err != nil {
		return payload.Payload{}, nil, err
	}
	p, err := store.Import(ctx, from)
	if len(sources) > 0 && cause.Is(err, cause.PayloadMissing) {
		err = nil
	}
	return p, sources, err
}

func (s *settings) store() payload.Store {
	return payload.Store{Dir: s.config.Store, Machine: s.machine, Version: s.desired.Version}
}
