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
	"outrigger.dev/pkg/config"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/nvml/telemetry"
	"outrigger.dev/pkg/hostfs"
)

const name = "dcgm-exporter"

// App describes the exporter.
func App() agent.App {
	return agent.App{
		Name:            name,
		Usage:           "serves the metrics of this node's GPUs to Prometheus, under the names of NVIDIA's DCGM Exporter",
		Flags:           flags(),
		Aliases:         aliases(),
		Listen:          ":9400",
		ListenVariables: []string{"DCGM_EXPORTER_LISTEN"},
		New:             newAgent,
		Source: func(c *cli.Context, log *slog.Logger) (gpu.Source, error) {
			host, err := agent.HostOf(c)
			if err != nil {
				return nil, err
			}
			d, err := openDriver(host)
			if err != nil {
				return nil, err
			}
			return d.Source(c, log)
		},
	}
}

func openDriver(host agent.Host) (*driver.Driver, error) {
	return driver.New(host, config.Driver{Root: host.DriverRoot, CtrRoot: host.DriverRootCtrPath, DevRoot: host.DevRoot})
}

func newAgent(c *cli.Context, log *slog.Logger) (*agent.Agent, error) {
	s, err := read(c, log)
	if err != nil {
		return nil, err
	}
	d, err := openDriver(s.host)
	if err != nil {
		return nil, err
	}
	session, err := d.Session(log)
	if err != nil {
		return nil, err
	}
	pods, err := openKubernetes(c, log)
	if err != nil {
		return nil, err
	}
	serve, err := server(c, log)
	if err != nil {
		return nil, err
	}
	source := d.Reader(session, log)
	cfg := s.exporter(c, log)
	cfg.Source, cfg.WatchDriver = source, d.WatchChanges
	cfg.Sampler = func(id gpu.UUID, fields []telemetry.Field) exporter.Sampler {
		return telemetry.New(telemetry.Config{Session: session, GPU: id, Fields: fields})
	}
	pods.connect(&cfg)
	e := exporter.New(cfg)
	return &agent.Agent{
		Parts: []agent.Part{
			{Name: "exporter", Run: e.Run, Ready: e.Ready, Reload: e.Reload, Close: source.Close},
			{Name: "metrics list", Reload: s.list.reload, Run: func(ctx context.Context) error {
				return s.list.follow(ctx, func(metrics []counters.Metric) {
					o := s.options
					o.Metrics = metrics
					e.Configure(o)
				})
			}},
			{Name: "pods", Run: pods.run, Ready: pods.failing, Collectors: pods.collectors(), Close: pods.kubelet.Close},
		},
		HTTP: agent.HTTP{
			Metrics: func(own prometheus.Gatherer) http.Handler { return scrape.Handler(e.Served, own, log) },
			Routes:  routes(),
			Serve:   serve,
		},
		Effective: s.host.Effective(),
	}, nil
}

// exporter returns the part of the config of an exporter that the flags describe.
func (s settings) exporter(c *cli.Context, log *slog.Logger) exporter.Config {
	cfg := exporter.Config{
		OnBus: func(busID string) bool {
			_, err := os.Lstat(filepath.Join(s.host.SysRoot, "bus/pci/devices", filepath.Base(busID)))
			return err == nil
		},
		Options: s.options, Interval: s.interval, Host: s.name, Log: log,
	}
	if dir := c.Path("hpc-job-mapping-dir"); dir != "" {
		cfg.Jobs = jobsOf(dir, log)
	}
	if file := c.Path("kernel-log"); file != "" {
		cfg.WatchLog = func(ctx context.Context, deliver func(kernellog.XID)) error {
			return kernellog.Watch(ctx, file, deliver)
		}
	}
	return cfg
}

// routes are the paths of NVIDIA's DCGM Exporter beside /metrics.
func routes() map[string]http.Handler {
	return map[string]http.Handler{
		"GET /health": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte("OK\n")) // the client has gone
		}),
		"GET /{$}": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			_, _ = w.Write([]byte(index)) // the client has gone
		}),
	}
}

const index = `<!DOCTYPE html>
<title>DCGM exporter</title>
<h1>DCGM exporter of Outrigger</h1>
<p><a href="metrics">Metrics</a></p>
`

// maxWebConfig bounds the file of --web-config-file: that of a Secret.
const maxWebConfig = 1 << 20

// server returns what serves HTTP with the settings of --web-config-file, nil without it.
func server(c *cli.Context, log *slog.Logger) (func(*http.Server, net.Listener) error, error) {
	file := c.Path("web-config-file")
	if file == "" {
		return nil, nil //nolint:nilnil // as documented
	}
	if c.Path("tls-cert-file") != "" {
		return nil, agent.Usagef("flags --web-config-file and --tls-cert-file: both say which certificate to use; set one of them")
	}
	_, err := hostfs.ReadFile(file, maxWebConfig) // the library reads whatever is there
	if err == nil {
		err = web.Validate(file)
	}
	if err != nil {
		return nil, agent.Usagef("flag --web-config-file: %s: %s", file, err)
	}
	addresses, systemd := []string{}, false
	flags := &web.FlagConfig{WebListenAddresses: &addresses, WebSystemdSocket: &systemd, WebConfigFile: &file}
	return func(s *http.Server, l net.Listener) error { return web.Serve(l, s, flags, log) }, nil
}
