package configfile

import (
	"errors"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// The classes of reasons why the newest config is not in effect. The log has the error itself.
const (
	// reasonUnreadable means that the file cannot be selected or read.
	reasonUnreadable = "unreadable"
	// reasonInvalid means that the file has errors.
	reasonInvalid = "invalid"
)

// unreadableError is the error of a file that cannot be selected or read.
type unreadableError struct{ error }

func (e *unreadableError) Unwrap() error { return e.error }

// Metrics exports the number of configs that were read, and whether the newest one is in effect.
type Metrics struct {
	loads    *prometheus.CounterVec
	rejected *prometheus.Desc

	mu sync.Mutex
	// reason is the reason why the newest config is not in effect, or empty if it is.
	reason string
}

var _ prometheus.Collector = (*Metrics)(nil)

// NewMetrics returns Metrics whose names begin with namespace, for example
// "outrigger_device_plugin".
func NewMetrics(namespace string) *Metrics {
	return &Metrics{
		loads: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: namespace, Name: "config_loads_total", Help: "Configs that were read after startup, by result.",
		}, []string{"result"}),
		rejected: prometheus.NewDesc(prometheus.BuildFQName(namespace, "", "config_refused"),
			"1 while the newest config is rejected, with the class of the reason: unreadable or invalid.", []string{"reason"}, nil),
	}
}

// Configured records that a config took effect, or was rejected if err is not nil.
func (m *Metrics) Configured(err error) {
	result, reason := "ok", ""
	if err != nil {
		result, reason = "error", reasonInvalid
		if unreadable := (*unreadableError)(nil); errors.As(err, &unreadable) {
			reason = reasonUnreadable
		}
	}
	m.loads.WithLabelValues(result).Inc()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.reason = reason
}

// Describe sends the descriptions of all metrics.
func (m *Metrics) Describe(ch chan<- *prometheus.Desc) {
	m.loads.Describe(ch)
	ch <- m.rejected
}

// Collect sends the metrics with their current values.
func (m *Metrics) Collect(ch chan<- prometheus.Metric) {
	m.loads.Collect(ch)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.reason != "" {
		ch <- prometheus.MustNewConstMetric(m.rejected, prometheus.GaugeValue, 1, m.reason)
	}
}
