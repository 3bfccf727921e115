// Package app wires the agent: it makes the configurations of the packages from the flags,
// and connects them to the loop in internal/loader.
package app

import (
	"context"
	"log/slog"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/urfave/cli/v2"

	"outrigger.dev/agents/driver-loader/internal/license"
	"outrigger.dev/agents/driver-loader/internal/loader"
	"outrigger.dev/agents/driver-loader/internal/payload"
	"outrigger.dev/agents/driver-loader/internal/upgrade"
	"outrigger.dev/pkg/agent"
	"outrigger.dev/pkg/kube"
)

// App describes the agent.
func App() agent.App {
	return agent.App{
		Name:     loader.Name,
		Usage:    "builds, checks and loads the NVIDIA driver's kernel modules on this node, and shows the driver root to other agents",
		Flags:    flags(),
		Listen:   ":9416",
		New:      newAgent,
		Commands: commands(),
	}
}

func newAgent(c *cli.Context, log *slog.Logger) (*agent.Agent, error) {
	s, err := read(c, log)
	if err != nil {
		return nil, err
	}
	return s.agent(log)
}

// agent returns the agent that the settings describe.
func (s settings) agent(log *slog.Logger) (*agent.Agent, error) {
	var up *upgrades
	licenses := license.New(license.Config{
		Configured: s.daemons.Licensed, Query: s.daemons.Query, Log: log,
		Report: func(e kube.Event) {
			if up != nil {
				up.events.Report(e)
			}
		},
	})
	s.config.Settled = func() {
		if up != nil {
			up.Changed()
		}
		licenses.Again()
	}
	s.config.Started = licenses.Again
	l := loader.New(s.config, s.machine)
	a := &agent.Agent{
		Run: func(ctx context.Context) error {
			if s.payload != "" {
				l.Import(ctx, s.importPayload)
			}
			others := []func(context.Context) error{func(ctx context.Context) error { return licenses.Run(ctx, l.Undisturbed) }}
			if up != nil {
				others = append(others, up.events.Run, up.Run)
			}
			return beside(ctx, l.Run, others)
		},
		Ready: l.Ready, Collectors: []prometheus.Collector{loader.NewMetrics(l), license.NewMetrics(licenses)},
		Reload: func(context.Context) error {
			l.Retry()
			licenses.Again()
			return nil
		},
	}
	if s.place == nil {
		return a, nil
	}
	var err error
	if up, err = s.upgrader(l, log); err != nil {
		return nil, err
	}
	a.Ready = func() error { return up.ready(l.Ready()) }
	a.Collectors = append(a.Collectors, upgrade.NewMetrics(up.Upgrade))
	return a, nil
}

// beside runs functions that end with their context while another one runs.
func beside(ctx context.Context, run func(context.Context) error, others []func(context.Context) error) error {
	ctx, stop := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	for _, other := range others {
		running.Go(func() { _ = other(ctx) })
	}
	return run(ctx)
}

// importPayload imports the driver that the flags name.
func (s settings) importPayload(ctx context.Context) error {
	_, err := s.store().Import(ctx, s.payload)
	return err
}

func (s *settings) store() payload.Store {
	return payload.Store{Dir: s.config.Store, Machine: s.machine}
}
