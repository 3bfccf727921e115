// Package app wires the agent: it makes the configurations of the packages from the flags,
// and connects them to the loop in internal/loader.
package app

import (
	"context"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/urfave/cli/v2"

	"outrigger.dev/agents/driver-loader/internal/loader"
	"outrigger.dev/agents/driver-loader/internal/payload"
	"outrigger.dev/agents/driver-loader/internal/upgrade"
	"outrigger.dev/pkg/agent"
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
	s.config.Settled = func() {
		if up != nil {
			up.Changed()
		}
	}
	l := loader.New(s.config, s.machine)
	a := &agent.Agent{
		Run: func(ctx context.Context) error {
			if s.payload != "" {
				l.Import(ctx, s.importPayload)
			}
			if up != nil {
				return up.beside(ctx, l.Run)
			}
			return l.Run(ctx)
		},
		Ready: l.Ready, Collectors: []prometheus.Collector{loader.NewMetrics(l)},
		Reload: func(context.Context) error { l.Retry(); return nil },
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

// importPayload imports the driver that the flags name.
func (s settings) importPayload(ctx context.Context) error {
	_, err := s.store().Import(ctx, s.payload)
	return err
}

func (s *settings) store() payload.Store {
	return payload.Store{Dir: s.config.Store, Machine: s.machine}
}
