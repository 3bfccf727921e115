// Package app wires the device plugin: it makes the configurations of the packages
// from the flags, and connects driver, folders and sockets to the loops in
// internal/inventory and internal/plugin.
package app

import (
	"context"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/urfave/cli/v2"

	"outrigger.dev/agents/device-plugin/internal/inventory"
	"outrigger.dev/agents/device-plugin/internal/metrics"
	"outrigger.dev/agents/device-plugin/internal/mps"
	"outrigger.dev/agents/device-plugin/internal/owner"
	"outrigger.dev/agents/device-plugin/internal/plugin"
	"outrigger.dev/agents/device-plugin/internal/prepare"
	"outrigger.dev/pkg/agent"
	"outrigger.dev/pkg/agent/cluster"
	"outrigger.dev/pkg/agent/driver"
	"outrigger.dev/pkg/agent/gpuconfig"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/hostfs"
)

const name = "device-plugin"

// App describes the device plugin.
func App() agent.App {
	return agent.App{
		Name:     name,
		Usage:    "advertises the GPUs of this node to the kubelet",
		Flags:    flags(),
		Aliases:  aliases(),
		Commands: commands(),
		Listen:   ":9410",
		New:      newAgent,
		Source: func(c *cli.Context, log *slog.Logger) (gpu.Source, error) {
			s, err := read(c, nil, log)
			if err != nil {
				return nil, err
			}
			return s.driver.Source(c, log)
		},
	}
}

// parts is what the plugin and the supervisor of MPS daemons have in common.
type parts struct {
	settings settings
	api      *cluster.API
	source   gpu.Source
	recorder *metrics.Recorder
}

func newParts(c *cli.Context, log *slog.Logger) (*parts, error) {
	api, err := openAPI(c, log)
	if err != nil {
		return nil, err
	}
	s, err := read(c, api, log)
	if err != nil {
		return nil, err
	}
	src, err := s.driver.Source(c, log)
	if err != nil {
		return nil, err
	}
	return &parts{settings: s, api: api, source: src, recorder: metrics.New("outrigger_device_plugin")}, nil
}

// inventory returns the config of an inventory that prepares no CDI specs and has no
// reporter.
func (p *parts) inventory(log *slog.Logger) inventory.Config {
	return inventory.Config{
		Config:       p.settings.live.Config,
		Rules:        p.settings.rules(p.settings.live.Config, log),
		Source:       p.source,
		Preparer:     inventory.Unprepared{},
		WatchChanges: p.settings.driver.WatchChanges,
		Recorder:     p.recorder,
		Log:          log,
	}
}

func newAgent(c *cli.Context, log *slog.Logger) (*agent.Agent, error) {
	parts, err := newParts(c, log)
	if err != nil {
		return nil, err
	}
	s, d, api := parts.settings, parts.settings.driver, parts.api
	gate := mps.NewGate(d.Contract)
	own := owner.New(d.Contract, name, log)
	ready := newMarker(d.Contract, log)
	cfg := parts.inventory(log)
	preparer := prepare.New(prepare.Config{
		Root: d.Root, DevRoot: s.live.Config.Driver.DevRoot, Toolkit: prepare.Toolkit{Contract: d.Contract, Root: d.Root}, Log: log,
	})
	cfg.Preparer = preparer
	cfg.Reporter, cfg.Owner, cfg.Gate = reporter{api}, own, gate
	inv := inventory.New(cfg)
	p := plugin.New(plugin.Config{
		Inventory:     inv,
		KubeletSocket: s.live.Config.KubeletSocket,
		Register:      s.live.Config.Register,
		WatchSockets: func(ctx context.Context, changed func()) {
			hostfs.Watch(ctx, log, changed, s.socketDir())
		},
		Recorder: parts.recorder,
		Marker:   ready,
		Log:      log,
	})
	shared := gpuconfig.NewPublisher(d.Contract, name, s.live.Config, log)
	return &agent.Agent{
		Parts: []agent.Part{
			// First, as all others wait for the GPUs.
			{
				Name: "inventory", Run: inv.Run, Health: driver.Checks(parts.source), Reload: inv.Reload,
				Collectors: []prometheus.Collector{parts.recorder}, Close: parts.source.Close,
			},
			{
				Name: "plugin", Run: p.Run, Ready: p.Ready, Reload: p.Wake,
				Withdraw: func(context.Context) error { return preparer.Withdraw(s.live.Config.CDIRoot) },
			},
			{Name: "mps gate", Run: gate.Run},
			{Name: "fact plugin-ready", Run: ready.Run},
			{Name: "gpu locks", Run: own.Run, Close: own.Close},
			{Name: "published config", Run: shared.Run},
			{
				Name: "config", Reload: s.live.Reload,
				Run: func(ctx context.Context) error { return s.live.Run(ctx, shared.Follow(s.follower(inv, log))) },
			},
			{Name: "events", Run: api.Run, Ready: api.Failing},
		},
		Owner:     cluster.OwnerOf(c, api, log),
		Effective: s.effective(c),
	}, nil
}
