// Package app wires the device plugin: it reads the flags into the packages'
// configurations and connects the edges (driver, folders, sockets) with the
// loop in internal/plugin.
package app

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/urfave/cli/v2"
	"golang.org/x/sync/errgroup"

	"outrigger.dev/agents/device-plugin/internal/inventory"
	"outrigger.dev/agents/device-plugin/internal/metrics"
	"outrigger.dev/agents/device-plugin/internal/plugin"
	"outrigger.dev/agents/device-plugin/internal/prepare"
	"outrigger.dev/pkg/agent"
	"outrigger.dev/pkg/contract"
	"outrigger.dev/pkg/driverroot"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/nvml"
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
			root, err := s.root()
			if err != nil {
				return nil, err
			}
			return source(c, s, root, log)
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
	root, err := s.root()
	if err != nil {
		return nil, err
	}
	src, err := source(c, s, root, log)
	if err != nil {
		return nil, err
	}
	recorder := metrics.New()
	inv := inventory.New(inventory.Config{
		Config:   s.config,
		Rules:    s.rules(s.config, log),
		Source:   src,
		Preparer: prepare.New(prepare.Config{Root: root, DevRoot: s.devRoot, Log: log}),
		WatchChanges: func(ctx context.Context, changed func()) error {
			return watch(ctx, changed, s.changes()...)
		},
		Recorder: recorder,
		Reporter: api.reporter(),
		Log:      log,
	})
	p := plugin.New(plugin.Config{
		Inventory:     inv,
		KubeletSocket: s.config.KubeletSocket,
		Register:      s.config.Register,
		WatchSockets: func(ctx context.Context, changed func()) error {
			return watch(ctx, changed, s.socketDir())
		},
		Recorder: recorder,
		Marker:   &marker{dir: s.contract(), log: log},
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
			return errors.Join(g.Wait(), src.Close())
		},
		Ready:  p.Ready,
		Health: checks(src),
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

// checks are those of /healthz. A process whose driver hangs cannot be helped
// but by another one, once the driver answers again.
func checks(src gpu.Source) map[string]func() error {
	c, ok := src.(gpu.Checker)
	if !ok {
		return nil
	}
	return map[string]func() error{"nvml": c.Health}
}

func (s settings) root() (*driverroot.Root, error) {
	return driverroot.New(driverroot.Config{
		HostPath: s.host.DriverRoot,
		CtrPath:  s.host.DriverRootCtrPath,
		DevRoot:  s.devRoot,
		ProcRoot: s.host.ProcRoot,
		SysRoot:  s.host.SysRoot,
	})
}

func (s settings) contract() contract.Dir {
	return contract.Dir{Root: s.host.RunRoot, ProcRoot: s.host.ProcRoot}
}

func source(c *cli.Context, s settings, root *driverroot.Root, log *slog.Logger) (gpu.Source, error) {
	file, err := agent.GPUSource(c)
	if err != nil {
		return nil, err
	}
	if file != "" {
		return gpu.NewFileSource(file, log), nil
	}
	return nvml.New(nvml.Config{
		DriverRoot: root,
		ProcRoot:   s.host.ProcRoot,
		SysRoot:    s.host.SysRoot,
		Lease:      s.contract().NVML(),
		Log:        log,
	})
}

// changes are the paths that change when a driver comes, or becomes whole, or
// when another agent no longer needs NVML for itself.
func (s settings) changes() []string {
	dev := "/dev"
	if s.devRoot != "" && s.devRoot != "/" {
		dev = filepath.Join(s.devRoot, "dev")
	}
	paths := []string{
		s.contract().Path(contract.DriverReady),
		filepath.Dir(s.contract().NVML().Path()),
		dev,
		s.host.DriverRootCtrPath,
		filepath.Join(s.host.DriverRootCtrPath, "usr/bin"),
	}
	for _, dir := range driverroot.LoaderDirs() {
		paths = append(paths, filepath.Join(s.host.DriverRootCtrPath, dir))
	}
	return paths
}

func watch(ctx context.Context, changed func(), paths ...string) error {
	return hostfs.Watch(ctx, func([]hostfs.Change) error { changed(); return nil }, paths...)
}
