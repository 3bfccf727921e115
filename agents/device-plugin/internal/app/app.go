// Package app wires the device plugin: it reads the flags into the packages'
// configurations and connects the edges (driver, folders, sockets) with the
// loop in internal/plugin.
package app

import (
	"context"
	"errors"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/urfave/cli/v2"
	"golang.org/x/sync/errgroup"

	"outrigger.dev/agents/device-plugin/internal/inventory"
	"outrigger.dev/agents/device-plugin/internal/metrics"
	"outrigger.dev/agents/device-plugin/internal/mps"
	"outrigger.dev/agents/device-plugin/internal/owner"
	"outrigger.dev/agents/device-plugin/internal/plugin"
	"outrigger.dev/agents/device-plugin/internal/prepare"
	"outrigger.dev/pkg/agent"
	"outrigger.dev/pkg/agent/driver"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/hostfs"
)

const name = "device-plugin"

// App describes the device plugin.
func App() agent.App {
	return agent.App{
		Name:     name,
		Usage:    "offers the GPUs of this node to the kubelet",
		Flags:    flags(),
		Aliases:  aliases(),
		Commands: commands(),
		Listen:   ":9410",
		New:      newAgent,
		Source: func(c *cli.Context, log *slog.Logger) (gpu.Source, error) {
			s, err := read(c, nil)
			if err != nil {
				return nil, err
			}
			d, err := s.driver()
			if err != nil {
				return nil, err
			}
			return d.Source(c, log)
		},
	}
}

func newAgent(c *cli.Context, log *slog.Logger) (*agent.Agent, error) {
	api, err := cluster(c, log)
	if err != nil {
		return nil, err
	}
	s, err := read(c, api.label(c.Context))
	if err != nil {
		return nil, err
	}
	d, err := s.driver()
	if err != nil {
		return nil, err
	}
	src, err := d.Source(c, log)
	if err != nil {
		return nil, err
	}
	recorder := metrics.New()
	gate := mps.NewGate(d.Contract)
	own := owner.New(d.Contract, name, log)
	inv := inventory.New(inventory.Config{
		Config:       s.config,
		Rules:        s.rules(s.config, log),
		Source:       src,
		Preparer:     prepare.New(prepare.Config{Root: d.Root, DevRoot: s.devRoot, Log: log}),
		WatchChanges: d.WatchChanges,
		Recorder:     recorder,
		Reporter:     api.reporter(),
		Owner:        own,
		Gate:         gate,
		Log:          log,
	})
	p := plugin.New(plugin.Config{
		Inventory:     inv,
		KubeletSocket: s.config.KubeletSocket,
		Register:      s.config.Register,
		WatchSockets: func(ctx context.Context, changed func()) error {
			return watch(ctx, changed, s.socketDir())
		},
		Recorder: recorder,
		Marker:   &marker{dir: d.Contract, log: log},
		Log:      log,
	})
	follow := newLive(s, api.labels(), inv, log)
	return &agent.Agent{
		Run: func(ctx context.Context) error {
			g, ctx := errgroup.WithContext(ctx)
			g.Go(func() error { return inv.Run(ctx) })
			g.Go(func() error { return p.Run(ctx) })
			g.Go(func() error { return follow.run(ctx) })
			g.Go(func() error { return api.run(ctx) })
			g.Go(func() error { return own.Run(ctx) })
			g.Go(func() error { return gate.Run(ctx) })
			return errors.Join(g.Wait(), own.Release(), src.Close())
		},
		Ready:  p.Ready,
		Health: driver.Checks(src),
		Reload: func(context.Context) error {
			follow.reload()
			inv.Reload()
			p.Wake()
			return nil
		},
		Collectors: []prometheus.Collector{recorder},
		Config:     s.effective(c),
	}, nil
}

func (s settings) driver() (*driver.Driver, error) { return driver.New(s.host, s.devRoot) }

func watch(ctx context.Context, changed func(), paths ...string) error {
	return hostfs.Watch(ctx, func([]hostfs.Change) error { changed(); return nil }, paths...)
}
