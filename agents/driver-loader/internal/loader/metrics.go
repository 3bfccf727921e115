package loader

import "github.com/prometheus/client_golang/prometheus"

// Metrics exports the state of a Loader on /metrics.
type Metrics struct {
	loader                *Loader
	ready, driver, causes *prometheus.Desc
}

// NewMetrics returns the metrics of a Loader.
func NewMetrics(l *Loader) *Metrics {
	const namespace = "outrigger_driver_loader_"
	return &Metrics{
		loader: l,
		ready:  prometheus.NewDesc(namespace+"ready", "1 while the driver is loaded and works; 0 while it is not, as /readyz explains.", nil, nil),
		driver: prometheus.NewDesc(namespace+"driver_info", "1, with version and kernel module type of the driver, while it is ready.", []string{"version", "type"}, nil),
		causes: prometheus.NewDesc(namespace+"causes", "Number of things that are in the way of the desired driver, by code.", []string{"code"}, nil),
	}
}

// Describe sends the descriptions of all metrics.
func (m *Metrics) Describe(ch chan<- *prometheus.Desc) {
	ch <- m.ready
	ch <- m.driver
	ch <- m.causes
}

// Collect sends the current metrics.
func (m *Metrics) Collect(ch chan<- prometheus.Metric) {
	state := m.loader.State()
	ready := 0.0
	if state.Kind == Done {
		ready = 1
		ch <- prometheus.MustNewConstMetric(m.driver, prometheus.GaugeValue, 1, state.Driver.Version, string(state.Driver.Flavour))
	}
	ch <- prometheus.MustNewConstMetric(m.ready, prometheus.GaugeValue, ready)
	counts := map[string]int{}
	for _, c := range state.Causes {
		counts[string(c.Code)]++
	}
	for code, n := range counts {
		ch <- prometheus.MustNewConstMetric(m.causes, prometheus.GaugeValue, float64(n), code)
	}
}
