// Package app wires feature discovery: it reads the flags into the packages'
// configurations and connects the edges (driver, bus, files, API server) with the
// loop in internal/discovery, or for --presence in internal/presence.
package app

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/urfave/cli/v2"
	"golang.org/x/sync/errgroup"

	"outrigger.dev/agents/feature-discovery/internal/discovery"
	"outrigger.dev/agents/feature-discovery/internal/machine"
	"outrigger.dev/agents/feature-discovery/internal/metrics"
	"outrigger.dev/agents/feature-discovery/internal/publish"
	"outrigger.dev/pkg/agent"
	"outrigger.dev/pkg/agent/cluster"
	"outrigger.dev/pkg/agent/configfile"
	"outrigger.dev/pkg/agent/driver"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/pci"
)

const name = "feature-discovery"

// App describes feature discovery.
func App() agent.App {
	return agent.App{
		Name:    name,
		Usage:   "labels this node with what its GPUs are, and tells when they can be used",
		Flags:   flags(),
		Aliases: aliases(),
		Listen:  ":9413",
		New:     newAgent,
		Source: func(c *cli.Context, log *slog.Logger) (gpu.Source, error) {
			host, hostErr := agent.HostOf(c)
			s, err := configfile.Load(c, (*cluster.API)(nil), log)
			if err := errors.Join(hostErr, err); err != nil {
				return nil, err
			}
			d, err := driver.Of(host, s.Config.Driver)
			if err != nil {
				return nil, err
			}
			return d.Source(c, log)
		},
	}
}

// aliases are names that users know from NVIDIA's GPU Feature Discovery.
func aliases() map[string]string {
	names := configfile.Aliases()
	names["output"], names["o"] = "output-file", "output-file"
	return names
}

func newAgent(c *cli.Context, log *slog.Logger) (*agent.Agent, error) {
	if c.Bool("presence") {
		return newPresence(c, log)
	}
	s, err := read(c, log)
	if err != nil {
		return nil, err
	}
	src, err := s.driver.Source(c, log)
	if err != nil {
		return nil, err
	}
	recorder := metrics.New()
	out := s.outputs(c, log)
	news := &news{out: out, api: s.api}
	d := discovery.New(discovery.Config{
		Config:      s.Config,
		Source:      src,
		WatchDriver: s.driver.WatchChanges,
		ReadMachine: s.machine(log),
		WatchFacts:  s.driver.Contract.Watch,
		Chain:       s.chain,
		Publish:     news.want,
		Recorder:    recorder,
		Log:         log,
	})
	if s.Config.GFD.OneShot {
		return oneshot(s, out, d, src), nil
	}
	follow := configfile.NewLive(s.Settings, configured{d, s.api}, log)
	return &agent.Agent{
		Run: func(ctx context.Context) error {
			g, ctx := errgroup.WithContext(ctx)
			g.Go(func() error { return d.Run(ctx) })
			g.Go(func() error { return follow.Run(ctx) })
			g.Go(func() error { return out.run(ctx) })
			g.Go(func() error { return s.api.Run(ctx) })
			return errors.Join(g.Wait(), src.Close())
		},
		Ready:      func() error { return errors.Join(d.Unknown(), out.err()) },
		Health:     driver.Checks(src),
		Reload:     func(context.Context) error { follow.Reload(); d.Reload(); return nil },
		Collectors: []prometheus.Collector{recorder},
		Config:     s.effective(c),
	}, nil
}

// oneshot returns the agent that publishes labels once.
func oneshot(s settings, out *outputs, d *discovery.Discovery, src gpu.Source) *agent.Agent {
	return &agent.Agent{
		Once: true,
		Run: func(ctx context.Context) error {
			labels, err := d.Once(ctx)
			if err == nil {
				err = out.once(ctx, publish.Wanted{Labels: labels})
			}
			return errors.Join(err, src.Close())
		},
		Config: slog.GroupValue(slog.String("publish", s.publish), slog.String("mig_strategy", string(s.Config.MIGStrategy))),
	}
}

// machine returns what reads what is known of the machine without its driver.
func (s settings) machine(log *slog.Logger) func() discovery.Machine {
	told := ""
	return func() discovery.Machine {
		m := discovery.Machine{Product: machine.ReadProduct(s.machineFile())}
		var err error
		if m.PCI, err = pci.Scan(s.host.SysRoot); err != nil {
			m.Unknown = true
			if told != err.Error() {
				told = err.Error()
				log.Warn("the PCI bus cannot be read whole", "err", err)
			}
		}
		return m
	}
}

// stamper returns what adds the timestamp.
func (s settings) stamper() publish.Stamper {
	if s.Config.GFD.NoTimestamp {
		return publish.Stamper{}
	}
	return publish.Stamper{Now: time.Now}
}

// effective is what the first line of the log says.
func (s settings) effective(c *cli.Context) slog.Value {
	cfg := s.Config
	return slog.GroupValue(
		slog.String("publish", s.publish),
		slog.String("node_name", c.String("node-name")),
		slog.String("gpu_source", c.String("gpu-source")),
		slog.String("config_file", s.File.Path),
		slog.String("config_dir", s.File.Dir),
		slog.String("driver_root", s.driver.Root.HostPath()),
		slog.String("driver_root_ctr_path", s.driver.Root.CtrPath()),
		slog.String("run_root", s.driver.Contract.Root),
		slog.String("sys_root", s.host.SysRoot),
		slog.String("mig_strategy", string(cfg.MIGStrategy)),
		slog.Any("sharing", cfg.Sharing),
		slog.Any("ready_chain", s.chain),
		slog.String("startup_taint", c.String("startup-taint")),
		slog.String("output_file", cfg.GFD.OutputFile),
		slog.Duration("sleep_interval", cfg.GFD.SleepInterval),
		slog.Bool("no_timestamp", cfg.GFD.NoTimestamp),
		slog.String("machine_type_file", s.machineFile()),
		slog.Bool("fail_on_init_error", cfg.FailOnInitError),
	)
}
