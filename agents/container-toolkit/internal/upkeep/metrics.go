package upkeep

import "github.com/prometheus/client_golang/prometheus"

// Metrics exports the state of the toolkit on /metrics.
type Metrics struct {
	status *Status
	specs  *SpecsKeeper

	ready, gpus *prometheus.Desc
}

// NewMetrics returns the metrics of an agent.
func NewMetrics(status *Status, specs *SpecsKeeper) *Metrics {
	const namespace = "outrigger_container_toolkit_"
	return &Metrics{
		status: status, specs: specs,
		ready: prometheus.NewDesc(namespace+"part_ready",
			"1 while a part of the toolkit is as it should be: lock, tools, cdi, runtime or nri; 0 while it is not, as /readyz explains.", []string{"part"}, nil),
		gpus: prometheus.NewDesc(namespace+"gpus", "Number of GPUs that the CDI specs describe; absent while there are no complete specs.", nil, nil),
	}
}

// Describe sends the descriptions of all metrics.
func (m *Metrics) Describe(ch chan<- *prometheus.Desc) {
	ch <- m.ready
	ch <- m.gpus
}

// Collect sends the current metrics.
func (m *Metrics) Collect(ch chan<- prometheus.Metric) {
	for _, p := range m.status.parts {
		v := 0.0
		if m.status.Of(p) == nil {
			v = 1
		}
		ch <- prometheus.MustNewConstMetric(m.ready, prometheus.GaugeValue, v, string(p))
	}
	if n := m.specs.Node(); n != nil {
		ch <- prometheus.MustNewConstMetric(m.gpus, prometheus.GaugeValue, float64(len(n.GPUs)))
	}
}
