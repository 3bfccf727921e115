package agent

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// LoopMetrics counts the steps of the loops of a program, see package reconcile.
type LoopMetrics struct {
	steps *prometheus.CounterVec
	took  *prometheus.HistogramVec
}

var _ prometheus.Collector = (*LoopMetrics)(nil)

// NewLoopMetrics returns LoopMetrics whose names begin with namespace, for example
// "outrigger_device_plugin".
func NewLoopMetrics(namespace string) *LoopMetrics {
	return &LoopMetrics{
		steps: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: namespace, Name: "reconcile_total", Help: "Reconciliations, by loop and result: ok or error.",
		}, []string{"loop", "result"}),
		took: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: namespace, Name: "reconcile_duration_seconds", Help: "Time that reconciliations took, by loop.",
			Buckets: []float64{0.01, 0.1, 1, 10, 60}, //nolint:mnd // from a file to a driver
		}, []string{"loop"}),
	}
}

// Observe records a step. It is the Observe of a reconcile.Config.
func (m *LoopMetrics) Observe(loop string, took time.Duration, err error) {
	result := "ok"
	if err != nil {
		result = "error"
	}
	m.steps.WithLabelValues(loop, result).Inc()
	m.took.WithLabelValues(loop).Observe(took.Seconds())
}

// Describe sends the descriptions of all metrics.
func (m *LoopMetrics) Describe(ch chan<- *prometheus.Desc) {
	m.steps.Describe(ch)
	m.took.Describe(ch)
}

// Collect sends the metrics with their current values.
func (m *LoopMetrics) Collect(ch chan<- prometheus.Metric) {
	m.steps.Collect(ch)
	m.took.Collect(ch)
}
