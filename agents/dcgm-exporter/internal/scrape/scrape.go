// Package scrape handles GET /metrics: it serves the stored metrics of the GPUs, and the metrics
// of the exporter itself.
package scrape

import (
	"cmp"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"

	"outrigger.dev/agents/dcgm-exporter/internal/exporter"
	"outrigger.dev/pkg/agent"
)

// Handler returns the handler of GET /metrics. own has the metrics of the exporter itself.
func Handler(served func() *exporter.Served, own prometheus.Gatherer, log *slog.Logger) http.Handler {
	options := promhttp.HandlerOpts{EnableOpenMetrics: true}
	plain := agent.MetricsHandler(gatherer{served, own, false}, options, log)
	open := agent.MetricsHandler(gatherer{served, own, true}, options, log)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if expfmt.NegotiateAccept(r.Header, expfmt.DefaultOpenMetricsAcceptedFormats()...).FormatType() == expfmt.TypeOpenMetrics {
			open.ServeHTTP(w, r)
			return
		}
		plain.ServeHTTP(w, r)
	})
}

// gatherer gathers the metrics of the GPUs and of the exporter.
type gatherer struct {
	served func() *exporter.Served
	own    prometheus.Gatherer
	// open is set if the metrics are served as OpenMetrics.
	open bool
}

// Gather returns all metrics, ordered by name.
func (g gatherer) Gather() ([]*dto.MetricFamily, error) {
	own, err := g.own.Gather()
	served := g.served()
	out := slices.Concat(own, served.Families)
	if age := ageFamily(served.Read, time.Now()); age != nil {
		out = append(out, age)
	}
	if g.open {
		for i, f := range out {
			out[i] = openMetricsFamily(f)
		}
	}
	slices.SortFunc(out, func(a, b *dto.MetricFamily) int { return cmp.Compare(a.GetName(), b.GetName()) })
	return out, err
}

// openMetricsFamily returns a family whose name stays the same in OpenMetrics. OpenMetrics would
// add "_total" to the name of a counter, but queries use DCGM's names without it. So the type of
// such a counter becomes unknown.
func openMetricsFamily(f *dto.MetricFamily) *dto.MetricFamily {
	if f.GetType() != dto.MetricType_COUNTER || strings.HasSuffix(f.GetName(), "_total") {
		return f
	}
	kind := dto.MetricType_UNTYPED
	out := &dto.MetricFamily{Name: f.Name, Help: f.Help, Type: &kind, Metric: make([]*dto.Metric, len(f.Metric))}
	for i, m := range f.Metric {
		out.Metric[i] = &dto.Metric{Label: m.Label, Untyped: &dto.Untyped{Value: m.GetCounter().Value}}
	}
	return out
}

// ageFamily returns the metrics with the ages of the readings.
func ageFamily(read []exporter.Read, now time.Time) *dto.MetricFamily {
	if len(read) == 0 {
		return nil
	}
	name, help, kind := "exporter_sample_age_seconds", "Age of the last reading of the GPU.", dto.MetricType_GAUGE
	f := &dto.MetricFamily{Name: &name, Help: &help, Type: &kind}
	for _, r := range read {
		age := max(0, now.Sub(r.At).Seconds())
		f.Metric = append(f.Metric, &dto.Metric{Label: r.Labels, Gauge: &dto.Gauge{Value: &age}})
	}
	return f
}
