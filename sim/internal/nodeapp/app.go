// Package nodeapp is the agent gpu-sim-node, which the chart gpu-sim runs on each node that simulates GPUs.
package nodeapp

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"time"

	"github.com/urfave/cli/v2"

	"outrigger.dev/pkg/agent"
	"outrigger.dev/pkg/agent/cluster"
	"outrigger.dev/pkg/cmdline"
	"outrigger.dev/pkg/cmdline/category"
	"outrigger.dev/pkg/nri"
	"outrigger.dev/pkg/version"
	"outrigger.dev/sim/internal/daemon"
	"outrigger.dev/sim/internal/inject"
	"outrigger.dev/sim/internal/node"
	"outrigger.dev/sim/internal/podload"
	"outrigger.dev/sim/internal/pool"
)

const name = "gpu-sim-node"

// stopLimit is how long a change may continue after a signal to stop.
const stopLimit = 10 * time.Second

// settings holds the values of the agent's flags.
type settings struct {
	cluster               cluster.Settings
	pools, models         string
	loads                 podload.Settings
	root, dev             string
	proc, sys, run, nri   string
	libraries             string
	program, hook         string
	kernelProc, kernelSys string
}

// App describes the agent.
func App() agent.App {
	s := &settings{kernelProc: "/proc", kernelSys: "/sys"}
	return agent.App{
		Name:  name,
		Usage: "simulates the GPUs that a label of the Node, or a pool, asks for",
		Examples: []cmdline.Example{
			{Purpose: "Simulate the GPUs that the label " + pool.Label + " of the Node names", Line: name + " --node-name=node1"},
			{Purpose: "Simulate two GPUs on all nodes with a label", Line: name + ` --node-name=node1 --pools='[{"nodeSelector": {"gpus": "two"}, "model": "h100-80", "gpus": 2}]'`},
			{Purpose: "Remove what a killed agent has left on its node", Line: name + " remove"},
		},
		Flags:     slices.Concat(cmdline.Under(category.Kubernetes, s.clusterFlags()...), cmdline.Under(category.Node, slices.Concat(s.nodeFlags(), s.loads.Flags())...)),
		Listen:    ":9419",
		New:       s.newAgent,
		StopLimit: stopLimit,
		Commands: []*cli.Command{{
			Name:  "remove",
			Usage: "remove the simulated GPUs of this node: mounts, device nodes and files",
			Action: func(c *cli.Context) error {
				return daemon.New(s.config(wanted{}, slog.New(slog.DiscardHandler))).Remove(c.Context)
			},
		}},
	}
}

func (s *settings) clusterFlags() []cli.Flag {
	return []cli.Flag{
		s.cluster.NodeNameFlag(),
		s.cluster.KubeconfigFlag(),
		s.cluster.EventsFlag("which GPUs the node simulates, and why it simulates none,"),
		s.cluster.NamespaceFlag("the agent's DaemonSet"),
		s.cluster.OwnerFlag("is deleted, or does not select the node any more,"),
		&cli.StringFlag{
			Name: "pools", EnvVars: []string{"POOLS"}, Destination: &s.pools,
			Usage: "`LIST` of pools in JSON, each with nodeSelector, model, gpus, mig, fabric, driverVersion, imexChannels and latency; the label " + pool.Label + " of a Node takes precedence",
		},
		&cli.StringFlag{
			Name: "models", EnvVars: []string{"MODELS"}, Destination: &s.models,
			Usage: "`MAPPING` in JSON from the names of own models, which pools and the label can use, to the keys of a data file; base is the model that has the other keys",
		},
	}
}

func (s *settings) nodeFlags() []cli.Flag {
	folder := func(name, variable, value, usage string, to *string) cli.Flag {
		return cmdline.Check(&cli.PathFlag{Name: name, EnvVars: []string{variable}, Value: value, Destination: to, Usage: usage}, "an absolute path", filepath.IsAbs)
	}
	return []cli.Flag{
		folder("root", "GPU_SIM_ROOT", "/run/gpu-sim/node", "`FOLDER` of the simulated node, with the same path on the host", &s.root),
		folder("dev", "DEV", "/dev", "`FOLDER` at which the agent sees /dev of the host, with the same path on the host", &s.dev),
		folder("proc-root", "PROC_ROOT", "/host/proc", "`FOLDER` at which the agent sees /proc of the host", &s.proc),
		folder("sys-root", "SYS_ROOT", "/host/sys", "`FOLDER` at which the agent sees /sys of the host", &s.sys),
		folder("run-root", "RUN_ROOT", "/run/nvidia", "`FOLDER` at which the agent sees /run/nvidia of the host, with the same path on the host", &s.run),
		folder("lib-dir", "GPU_SIM_LIB_DIR", "/usr/lib/gpu-sim", "`FOLDER` with the simulator's libraries", &s.libraries),
		folder("gpu-sim", "GPU_SIM", "/usr/bin/gpu-sim", "`FILE` of the program gpu-sim, which also simulates the driver's programs", &s.program),
		folder("gpu-sim-hook", "GPU_SIM_HOOK", "/usr/bin/gpu-sim-hook", "`FILE` of the hook that shows the GPUs in containers", &s.hook),
		cmdline.Check(&cli.PathFlag{
			Name: "nri-socket", EnvVars: []string{"NRI_SOCKET"}, Value: nri.Socket, Destination: &s.nri,
			Usage: "`SOCKET` of the container engine's NRI, through which containers see the simulated GPUs in their /proc and /sys; if empty, they do not",
		}, "an absolute path, or nothing", func(v string) bool { return v == "" || filepath.IsAbs(v) }),
	}
}

// wanted has the pools and the own models.
type wanted struct {
	pools  []pool.Pool
	models pool.Models
}

func (s *settings) wanted() (w wanted, err error) {
	if w.models, err = pool.ParseModels(s.models); err != nil {
		return w, cmdline.Usagef("flag --models: %w", err)
	}
	if w.pools, err = pool.Parse(s.pools, w.models); err != nil {
		return w, cmdline.Usagef("flag --pools: %w", err)
	}
	return w, nil
}

func (s *settings) config(w wanted, log *slog.Logger) daemon.Config {
	return daemon.Config{
		Root: s.root, Name: s.cluster.NodeName, Pools: w.pools, Models: w.models, Log: log,
		Host: node.Host{
			ProcDevices: filepath.Join(s.kernelProc, "devices"), PCIDevices: filepath.Join(s.kernelSys, "bus/pci/devices"), Dev: s.dev,
		},
		Shown:     node.Shown{Proc: s.proc, Sys: s.sys, Run: s.run},
		Libraries: s.libraries, Program: s.program, Hook: s.hook, Version: version.String(),
		Real: func() (string, error) { return daemon.Real(s.kernelProc, s.kernelSys) },
	}
}

func (s *settings) newAgent(_ *cli.Context, log *slog.Logger) (*agent.Agent, error) {
	if err := s.cluster.Named(); err != nil {
		return nil, err
	}
	w, err := s.wanted()
	if err != nil {
		return nil, err
	}
	for _, err := range w.models.Mistakes() {
		log.Warn("own model has mistakes, nodes with it get no gpus", "err", err)
	}
	api, err := s.cluster.Open(name, log)
	if err != nil {
		return nil, cmdline.Usagef("the agent reads the labels of its Node, and cannot reach the API server: %w: set --kubeconfig, or use gpu-sim, which works without Kubernetes", err)
	}
	loads, err := s.loads.Open(podload.Target{Root: s.root, Name: s.cluster.NodeName, Client: api.Client, Event: api.Event}, log)
	if err != nil {
		return nil, cmdline.Usagef("%w", err)
	}
	cfg := s.config(w, log)
	cfg.Report, cfg.Made = api.Event, loads.Wake
	d := daemon.New(cfg)
	shows := inject.New(inject.Config{Root: s.root, Hook: node.HookIn(filepath.Join(s.run, "driver")), Socket: s.nri, Event: api.Event, Log: log})
	owner := s.cluster.Owner(api, log)
	owner.Left, owner.Watched = true, true
	owner.ByHand = name + " remove"
	return &agent.Agent{Parts: parts(d, loads, shows, api), Owner: owner}, nil
}

// parts returns the parts of the agent.
func parts(d *daemon.Daemon, loads *podload.Follower, shows *inject.Plugin, api *cluster.API) []agent.Part {
	labels := func(ctx context.Context) error {
		if err := api.WatchLabels(ctx, d.Labelled); err != nil {
			return fmt.Errorf("watch the labels of the Node: %w", err)
		}
		return nil
	}
	return []agent.Part{
		{Name: "labels", Run: labels, Ready: api.Failing},
		{Name: "gpus", Run: d.Run, Ready: d.Ready, Reload: d.Reload, Withdraw: d.Remove},
		{Name: "mig devices", Run: d.Follow},
		{Name: "containers", Run: shows.Run},
		{Name: "loads", Run: loads.Run, Ready: loads.Ready},
		{Name: "events", Run: api.Run},
	}
}
