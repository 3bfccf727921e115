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
	l := loader.New(s.config, s.machine)
	return &agent.Agent{
		Run: func(ctx context.Context) error {
			if s.payload != "" {
				if _, err := s.store().Import(ctx, s.payload); err != nil {
					// The store may have a driver.
					log.Error("cannot import the driver", "path", s.payload, "err", err)
				}
			}
			return l.Run(ctx)
		},
		Ready: l.Ready, Collectors: []prometheus.Collector{loader.NewMetrics(l)},
		Reload: func(context.Context) error { l.Retry(); return nil },
	}, nil
}

func (s *settings) store() payload.Store {
	return payload.Store{Dir: s.config.Store, Machine: s.machine}
}
