package agent

import (
	"fmt"
	"log/slog"
	"net/http"
	"runtime"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"

	"outrigger.dev/pkg/version"
)

// maxScrapes is the number of scrapes that a handler of metrics answers at a time, even if
// connections of HTTP/2 carry more requests. It limits the memory for the answers.
const maxScrapes = maxConnections

// MetricsHandler returns a handler of GET /metrics. It serves the metrics of g without the
// collectors that fail. While it answers maxScrapes requests, it answers 503 to others. It
// overrides the request limit, the error handling and the error log of the options.
func MetricsHandler(g prometheus.Gatherer, options promhttp.HandlerOpts, log *slog.Logger) http.Handler {
	options.ErrorHandling = promhttp.ContinueOnError
	options.MaxRequestsInFlight = maxScrapes
	// promhttp would log a line for each metric family that a client does not read.
	options.ErrorLog = nil
	return promhttp.HandlerFor(prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) {
		families, err := g.Gather()
		if err != nil {
			log.Warn("cannot collect all metrics, serving the others", "err", err)
		}
		return families, err
	}), options)
}

// processCollectors returns the collectors of build info, Go runtime and process.
func processCollectors(name string) []prometheus.Collector {
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "outrigger_build_info",
		Help: "Always 1; the labels say which agent this is and how it was built.",
		ConstLabels: prometheus.Labels{
			"agent": name, "version": version.String(), "goversion": runtime.Version(),
		},
	})
	info.Set(1)
	return []prometheus.Collector{
		info,
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	}
}

// newRegistry returns a registry of collectors.
func newRegistry(all []prometheus.Collector) (*prometheus.Registry, error) {
	reg := prometheus.NewRegistry()
	for _, c := range all {
		if err := reg.Register(c); err != nil {
			return nil, fmt.Errorf("register metrics: %w", err)
		}
	}
	return reg, nil
}
