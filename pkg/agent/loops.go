package agent

import (
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// loopMetrics counts the steps of the loops of an agent (package reconcile).
type loopMetrics struct {
	steps *prometheus.CounterVec
	took  *prometheus.HistogramVec
}

func newLoopMetrics(agent string) *loopMetrics {
	namespace := "outrigger_" + strings.ReplaceAll(agent, "-", "_")
	return &loopMetrics{
		steps: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: namespace, Name: "reconcile_total", Help: "Reconciliations, by loop and result: ok or error.",
		}, []string{"loop", "result"}),
		took: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: namespace, Name: "reconcile_duration_seconds", Help: "Time that reconciliations took, by loop.",
			Buckets: []float64{0.01, 0.1, 1, 10, 60}, //nolint:mnd // from a file to a driver
		}, []string{"loop"}),
	}
}

// observe is the reconcile.Observer of the loops of an agent.
func (m *loopMetrics) observe(loop string, took time.Duration, err error) {
	result := "ok"
	if err != nil {
		result = "error"
	}
	m.steps.WithLabelValues(loop, result).Inc()
	m.took.WithLabelValues(loop).Observe(took.Seconds())
}

func (m *loopMetrics) collectors() []prometheus.Collector {
	return []prometheus.Collector{m.steps, m.took}
}
