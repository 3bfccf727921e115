package configfile

import (
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics shows on /metrics what becomes of changed configs.
type Metrics struct {
	loads   *prometheus.CounterVec
	refused *prometheus.Desc

	mu sync.Mutex
	// refusal is why the newest config is not used, empty if it is.
	refusal string
}

var _ prometheus.Collector = (*Metrics)(nil)

// NewMetrics returns Metrics that have seen nothing. Their names begin with
// namespace: "outrigger_device_plugin".
func NewMetrics(namespace string) *Metrics {
	return &Metrics{
		loads: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: namespace, Name: "config_loads_total", Help: "Configs that were read after the start, by result.",
		}, []string{"result"}),
		refused: prometheus.NewDesc(prometheus.BuildFQName(namespace, "", "config_refused"),
			"1 while the newest config is not used, with the reason.", []string{"reason"}, nil),
	}
}

// Configured notes that a config was taken, or why it was not.
func (m *Metrics) Configured(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err == nil {
		m.loads.WithLabelValues("ok").Inc()
		m.refusal = ""
		return
	}
	m.loads.WithLabelValues("error").Inc()
	// A metric is no place for a list of mistakes: the log has all. And it is
	// UTF-8, or the process ends, while files have what others have written.
	first, _, _ := strings.Cut(err.Error(), "\n")
	m.refusal = strings.ToValidUTF8(first, "?")
}

// Describe sends what Collect may send.
func (m *Metrics) Describe(ch chan<- *prometheus.Desc) {
	m.loads.Describe(ch)
	ch <- m.refused
}

// Collect sends the metrics as they are now.
func (m *Metrics) Collect(ch chan<- prometheus.Metric) {
	m.loads.Collect(ch)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.refusal != "" {
		ch <- prometheus.MustNewConstMetric(m.refused, prometheus.GaugeValue, 1, m.refusal)
	}
}
