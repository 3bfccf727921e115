// Package app wires the exporter: it makes the configurations of the packages from the flags,
// and connects driver, kubelet and server to the loop in internal/exporter.
package app

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/exporter-toolkit/web"
	"github.com/urfave/cli/v2"

	"outrigger.dev/agents/dcgm-exporter/internal/counters"
	"outrigger.dev/agents/dcgm-exporter/internal/exporter"
	"outrigger.dev/agents/dcgm-exporter/internal/kernellog"
	"outrigger.dev/agents/dcgm-exporter/internal/scrape"
	"outrigger.dev/pkg/agent"
	"outrigger.dev/pkg/agent/driver"
	"outrigger.dev/pkg/agent/gpuconfig"
	"outrigger.dev/pkg/cmdline"
	"outrigger.dev/pkg/config"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/nvml/telemetry"
	"outrigger.dev/pkg/hostfs"
)

const name = "dcgm-exporter"

// App describes the exporter.
func App() agent.App {
	s := &settings{}
	return agent.App{
		Name:  name,
		Usage: "serves the metrics of this node's GPUs to Prometheus, under the names of NVIDIA's DCGM Exporter",
		Examples: []cmdline.Example{
			{Purpose: "Serve the metrics of a list, with the pods that use the GPUs", Line: "dcgm-exporter --collectors=counters.csv --kubernetes"},
			{Purpose: "Read the GPUs each second, and serve the metrics only on this machine", Line: "dcgm-exporter --collect-interval=1000 --address=127.0.0.1:9400"},
		},
		Flags:           s.flags(),
		Commands:        s.commands(),
		Host:            &s.host,
		Listen:          ":9400",
		ListenAliases:   []string{"a", "address"},
		ListenVariables: []string{"DCGM_EXPORTER_LISTEN"},
		New:             s.newAgent,
		Source: func(_ *cli.Context, log *slog.Logger) (gpu.Source, error) {
			d, err := s.driver()
			if err != nil {
				return nil, err
			}
			return d.Source(log)
		},
	}
}

func (s *settings) driver() (*driver.Driver, error) {
	return driver.New(s.host, config.Driver{Root: s.host.DriverRoot, CtrRoot: s.host.DriverRootCtrPath, DevRoot: s.host.DevRoot})
}

func (s *settings) newAgent(c *cli.Context, log *slog.Logger) (*agent.Agent, error) {
	if err := s.complete(); err != nil {
		return nil, err
	}
	list, err := s.openList(c.Context, log)
	if err != nil {
		return nil, err
	}
	d, err := s.driver()
	if err != nil {
		return nil, err
	}
	session, err := d.Session(log)
	if err != nil {
		return nil, err
	}
	pods, err := s.openKubernetes(log)
	if err != nil {
		return nil, err
	}
	serve, err := s.server(c, log)
	if err != nil {
		return nil, err
	}
	source := d.Reader(session, log)
	cfg := s.exporter(log)
	cfg.Source, cfg.WatchDriver, cfg.Incidents = source, d.WatchChanges, d.Incidents(source, log)
	cfg.Sampler = func(id gpu.UUID, fields []telemetry.Field) exporter.Sampler {
		return telemetry.New(telemetry.Config{Session: session, GPU: id, Fields: fields})
	}
	pods.connect(&cfg)
	e := exporter.New(cfg)
	return &agent.Agent{
		Parts: []agent.Part{
			{Name: "exporter", Run: e.Run, Ready: e.Ready, Reload: e.Reload, Close: source.Close},
			{Name: "metrics list", Reload: list.reload, Run: func(ctx context.Context) error {
				return list.follow(ctx, func(metrics []counters.Metric) {
					o := s.options
					o.Metrics = metrics
					e.Configure(o)
				})
			}},
			{Name: "health rules", Run: func(ctx context.Context) error {
				return gpuconfig.WatchRules(ctx, d.Contract, e.SetRules)
			}},
			{Name: "pods", Run: pods.run, Ready: pods.failing, Collectors: pods.collectors(), Close: pods.kubelet.Close},
		},
		HTTP: agent.HTTP{
			Metrics: func(own prometheus.Gatherer) http.Handler { return scrape.Handler(e.Served, own, log) },
			Routes:  routes(),
			Serve:   serve,
		},
	}, nil
}

// exporter returns the exporter's config, with the fields that depend only on flags.
func (s *settings) exporter(log *slog.Logger) exporter.Config {
	cfg := exporter.Config{
		OnBus: func(busID string) bool {
			_, err := os.Lstat(filepath.Join(s.host.SysRoot, "bus/pci/devices", filepath.Base(busID)))
			return err == nil
		},
		Options: s.options, Interval: milliseconds(s.interval), Host: s.name, Log: log,
	}
	if s.jobsDir != "" {
		cfg.Jobs = jobsReader(s.jobsDir, log)
	}
	if s.kernelLog != "" {
		cfg.WatchLog = func(ctx context.Context, deliver func(kernellog.XID)) error {
			return kernellog.Watch(ctx, s.kernelLog, deliver)
		}
	}
	return cfg
}

// routes returns the handlers for the paths of NVIDIA's DCGM Exporter other than /metrics.
func routes() map[string]http.Handler {
	return map[string]http.Handler{
		"GET /health": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte("OK\n")) // an error means that the client has gone
		}),
		"GET /{$}": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			_, _ = w.Write([]byte(index)) // an error means that the client has gone
		}),
	}
}

const index = `<!DOCTYPE html>
<title>DCGM exporter</title>
<h1>DCGM exporter of Outrigger</h1>
<p><a href="metrics">Metrics</a></p>
`

// maxWebConfig is the limit for the file of --web-config-file, in bytes. A Secret has the same
// limit.
const maxWebConfig = 1 << 20

// server returns the function that serves HTTP with the settings of --web-config-file, or nil if
// the flag is not set.
func (s *settings) server(c *cli.Context, log *slog.Logger) (func(*http.Server, net.Listener) error, error) {
	file := s.webConfig
	if file == "" {
		return nil, nil //nolint:nilnil // as documented
	}
	if c.Path("tls-cert-file") != "" {
		return nil, cmdline.Usagef("flags --web-config-file and --tls-cert-file: both say which certificate to use; set one of them")
	}
	_, err := hostfs.ReadFile(file, maxWebConfig) // the library does not check the size and type of the file
	if err != nil {
		return nil, cmdline.Usagef("flag --web-config-file: %w", err)
	}
	if err := web.Validate(file); err != nil {
		return nil, cmdline.Usagef("flag --web-config-file: %s: %w", file, err)
	}
	addresses, systemd := []string{}, false
	flags := &web.FlagConfig{WebListenAddresses: &addresses, WebSystemdSocket: &systemd, WebConfigFile: &file}
	return func(s *http.Server, l net.Listener) error { return web.Serve(l, s, flags, log) }, nil
}
