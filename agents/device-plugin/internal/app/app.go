// Package app wires the device plugin: it makes the configurations of the packages
// from the flags, and connects driver, folders and sockets to the loops in
// internal/inventory and internal/plugin.
package app

import (
	"context"
	"log/slog"

	"github.com/urfave/cli/v2"

	"outrigger.dev/agents/device-plugin/internal/inventory"
	"outrigger.dev/agents/device-plugin/internal/metrics"
	"outrigger.dev/agents/device-plugin/internal/mps"
	"outrigger.dev/agents/device-plugin/internal/parts"
	"outrigger.dev/agents/device-plugin/internal/plugin"
	"outrigger.dev/pkg/agent"
	"outrigger.dev/pkg/agent/cluster"
	"outrigger.dev/pkg/agent/gpuconfig"
	"outrigger.dev/pkg/cmdline"
	"outrigger.dev/pkg/contract"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/hostfs"
)

const name = "device-plugin"

// App describes the device plugin.
func App() agent.App { return newApp(&settings{}) }

func newApp(s *settings) agent.App {
	return agent.App{
		Name:     name,
		Usage:    "advertises the GPUs of this node to the kubelet",
		Examples: examples(),
		Flags:    s.flags(),
		Host:     &s.gpus.Host,
		Commands: s.commands(),
		Listen:   ":9410",
		New:      s.newAgent,
		Source:   s.source,
	}
}

func examples() []cmdline.Example {
	return []cmdline.Example{
		{Purpose: "Run the plugin, and share each GPU between four containers", Line: "device-plugin --resource-config=gpu:gpu.shared:4"},
		{Purpose: "Check all config files of a folder; this needs no GPU", Line: "device-plugin validate --config-dir=configs"},
		{Purpose: "Print the devices that this node would advertise with a config file", Line: "device-plugin explain --config-file=config.yaml"},
		{Purpose: "Print the same for another node", Line: "device-plugin explain --config-file=config.yaml --node=snapshot.json"},
	}
}

// source returns the source of the GPUs. It ignores labels of the node, because it does not
// connect to the API server.
func (s *settings) source(c *cli.Context, log *slog.Logger) (gpu.Source, error) {
	if err := s.load(c.Context, nil, log); err != nil {
		return nil, err
	}
	return s.driver.Source(log)
}

// open loads the settings. It returns the API server and the config that the device plugin and
// the supervisor of MPS daemons share.
func (s *settings) open(ctx context.Context, log *slog.Logger) (*cluster.API, parts.Config, error) {
	api, err := s.openAPI(log)
	if err != nil {
		return nil, parts.Config{}, err
	}
	if err := s.load(ctx, api, log); err != nil {
		return nil, parts.Config{}, err
	}
	src, err := s.driver.Source(log)
	return api, parts.Config{
		Config: inventory.Config{Config: s.live.Config, Rules: s.rules(s.live.Config, log), Source: src, Log: log},
		Driver: s.driver, ToolkitDir: s.toolkitDir,
		Recorder: metrics.New("outrigger_device_plugin"),
	}, err
}

func (s *settings) newAgent(c *cli.Context, log *slog.Logger) (*agent.Agent, error) {
	api, cfg, err := s.open(c.Context, log)
	if err != nil {
		return nil, err
	}
	d := s.driver
	gate := mps.NewGate(d.Contract)
	cfg.Advertiser, cfg.Reporter, cfg.Gate, cfg.Pins = name, reporter{api}, gate, d.Pins()
	base := parts.New(cfg)
	fact := d.Contract.NewKeeper(d.Contract.Path(contract.PluginReady), log)
	p := plugin.New(plugin.Config{
		Inventory:     base.Inventory,
		KubeletSocket: s.live.Config.KubeletSocket,
		Register:      s.live.Config.Register,
		WatchSockets: func(ctx context.Context, changed func()) {
			hostfs.Watch(ctx, log, changed, s.socketDir())
		},
		Recorder: cfg.Recorder,
		Ready: func(n *gpu.Node) {
			if n == nil {
				fact.Withdraw()
				return
			}
			fact.Publish(contract.Record{Writer: name, DriverVersion: n.Driver.Version})
		},
		Log: log,
	})
	published := gpuconfig.NewPublisher(d.Contract, name, s.live.Config, log)
	return &agent.Agent{
		Parts: append(base.Parts,
			agent.Part{
				Name: "plugin", Run: p.Run, Ready: p.Ready, Reload: p.Wake,
				Withdraw: func(context.Context) error { return base.Specs.Withdraw(s.live.Config.CDIRoot) },
			},
			agent.Part{Name: "mps gate", Run: func(ctx context.Context) error { gate.Run(ctx, base.Inventory.Wake); return nil }},
			agent.Part{Name: "fact plugin-ready", Run: fact.Run},
			agent.Part{Name: "published config", Run: published.Run},
			agent.Part{
				Name: "config", Reload: s.live.Reload,
				Run: func(ctx context.Context) error {
					return s.run(ctx, published.Follow(s.follower(base.Inventory, log)))
				},
			},
			agent.Part{Name: "events", Run: api.Run, Ready: api.Failing},
		),
		Owner:     s.cluster.Owner(api, log),
		Effective: s.effective(),
	}, nil
}
