// Package app wires feature discovery: it makes the configurations of the packages
// from the flags, and connects driver, PCI bus, files and API server to the loop in
// internal/discovery, or with --presence in internal/presence.
package app

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/urfave/cli/v2"

	"outrigger.dev/agents/feature-discovery/internal/discovery"
	"outrigger.dev/agents/feature-discovery/internal/machine"
	"outrigger.dev/agents/feature-discovery/internal/metrics"
	"outrigger.dev/agents/feature-discovery/internal/publish"
	"outrigger.dev/agents/feature-discovery/internal/ready"
	"outrigger.dev/pkg/agent"
	"outrigger.dev/pkg/agent/cluster"
	"outrigger.dev/pkg/agent/driver"
	"outrigger.dev/pkg/cmdline"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/kube"
	"outrigger.dev/pkg/nodestate"
	"outrigger.dev/pkg/pci"
	"outrigger.dev/pkg/reconcile"
)

const name = "feature-discovery"

// GFD is the name of the program in the manifests of NVIDIA's GPU Feature Discovery.
const GFD = "gpu-feature-discovery"

// App describes feature discovery.
func App(program string) agent.App { return newApp(&settings{fallback: outputOf(program)}) }

func newApp(s *settings) agent.App {
	return agent.App{
		Name:  name,
		Usage: "labels this node with the properties of its GPUs, and reports whether they can be used",
		Examples: []cmdline.Example{
			{Purpose: "Print the labels of this node; this needs no cluster", Line: "feature-discovery --oneshot --publish=stdout"},
			{Purpose: "Label the Node, and set its condition GPUReady", Line: "feature-discovery --node-name=node1 --ready-chain=driver,toolkit,plugin"},
			{Purpose: "Only label the presence of GPUs; this needs no driver", Line: "feature-discovery --node-name=node1 --presence"},
		},
		Flags:  s.flags(),
		Host:   &s.gpus.Host,
		Listen: ":9413",
		New:    s.newAgent,
		Source: func(c *cli.Context, log *slog.Logger) (gpu.Source, error) {
			live, err := s.gpus.Load(c.Context, (*cluster.API)(nil), log)
			if err != nil {
				return nil, err
			}
			d, err := driver.New(s.gpus.Host, live.Config.Driver)
			if err != nil {
				return nil, err
			}
			return d.Source(log)
		},
	}
}

// outputOf returns the default output of labels for a program name. All manifests of NVIDIA's
// GPU Feature Discovery mount the folder of features files. They permit neither writes to the
// Node nor patches of NodeFeature objects.
func outputOf(program string) string {
	if program == GFD {
		return publishFile
	}
	return publishNode
}

func (s *settings) newAgent(c *cli.Context, log *slog.Logger) (*agent.Agent, error) {
	if s.presence {
		return s.newPresence(log)
	}
	if err := s.load(c.Context, log); err != nil {
		return nil, err
	}
	src, err := s.driver.Source(log)
	if err != nil {
		return nil, err
	}
	recorder := metrics.New()
	out := s.outputs(c.App.Writer, log)
	d := discovery.New(discovery.Config{
		Config:      s.adopted.Config,
		Source:      src,
		WatchDriver: s.driver.WatchChanges,
		ReadMachine: s.machine(log),
		WatchFacts:  s.driver.Contract.Watch,
		WatchNode:   s.watchNode(),
		Chain:       s.chain,
		Incidents:   s.driver.Incidents(src, log),
		Publish:     out.set,
		Recorder:    recorder,
		Log:         log,
	})
	if s.live.Config.GFD.OneShot {
		once := func(ctx context.Context) error {
			labels, err := d.Once(ctx)
			if err != nil {
				return err
			}
			return out.once(ctx, nodestate.Desired{Labels: labels})
		}
		return &agent.Agent{Once: true, Parts: []agent.Part{{Name: "labels", Run: once, Close: src.Close}}, Effective: s.effective()}, nil
	}
	parts := []agent.Part{
		{
			Name: "discovery", Run: d.Run, Ready: d.Unknown, Health: driver.Checks(src), Reload: d.Reload,
			Collectors: []prometheus.Collector{recorder}, Close: src.Close,
		},
		{
			Name: "config", Reload: s.live.Reload,
			Run: func(ctx context.Context) error { return s.adopted.Run(ctx, s.follower(d)) },
		},
	}
	parts = append(parts, out.parts(s.publish == publishNode, len(s.chain) > 0)...)
	return &agent.Agent{
		Parts:     append(parts, agent.Part{Name: "events", Run: s.api.Run, Ready: s.api.Failing}),
		Owner:     s.owner(s.api, log),
		Effective: s.effective(),
	}, nil
}

// owner returns the owner of the agent's pod, which is a DaemonSet. The agent also removes its
// labels and condition when the DaemonSet no longer selects the node.
func (s *settings) owner(api *cluster.API, log *slog.Logger) *cluster.Owner {
	owner := s.cluster.Owner(api, log)
	owner.Left = true
	return owner
}

// watchNode returns the function that watches the Node, or nil outside of a cluster.
func (s *settings) watchNode() func(context.Context, func(ready.Node)) error {
	if s.api == nil {
		return nil
	}
	return func(ctx context.Context, deliver func(ready.Node)) error {
		kube.Watch(ctx, s.api.Client, kube.Query{Object: s.api.Node()}, func(nodes []ready.Node) {
			for _, n := range nodes {
				deliver(n)
			}
		})
		return nil
	}
}

// machine returns the function that reads the state of the machine, which needs no driver.
func (s *settings) machine(log *slog.Logger) func() discovery.Machine {
	var bus, model reconcile.Status
	return func() discovery.Machine {
		var m discovery.Machine
		var err error
		if m.Product, err = machine.ReadProduct(s.machineFile()); model.Set(err) && err != nil {
			log.Warn("cannot read the machine type, labelling it as unknown", "err", err)
		}
		m.PCI, err = pci.Scan(s.gpus.Host.SysRoot)
		m.Unknown = err != nil
		if bus.Set(err) && err != nil {
			log.Warn("cannot read the whole PCI bus, retrying", "err", err)
		}
		return m
	}
}

// timestamp returns the key of the label with the timestamp, or "" for no label.
func (s *settings) timestamp() string {
	if s.live.Config.GFD.NoTimestamp {
		return ""
	}
	return publish.Timestamp
}

// stamper returns the Stamper for the label with the timestamp.
func (s *settings) stamper() publish.Stamper {
	return publish.Stamper{Key: s.timestamp(), Now: time.Now}
}

// effective returns the settings in effect.
func (s *settings) effective() []slog.Attr {
	return slices.Concat(s.gpus.Effective(s.adopted.Config), s.driver.Effective(), []slog.Attr{
		slog.String(agent.SettingKey("publish"), s.publish),
		slog.String(agent.SettingKey("machine-type-file"), s.machineFile()),
	})
}
