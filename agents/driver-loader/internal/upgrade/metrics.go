package upgrade

import "github.com/prometheus/client_golang/prometheus"

// Metrics exports where an Upgrade is on /metrics.
type Metrics struct {
	upgrade             *Upgrade
	state, since, cause *prometheus.Desc
}

// NewMetrics returns the metrics of an Upgrade.
func NewMetrics(u *Upgrade) *Metrics {
	const namespace = "outrigger_driver_loader_upgrade_"
	return &Metrics{
		upgrade: u,
		state:   prometheus.NewDesc(namespace+"state", "1 for the state of the node's upgrade, by the value of the label "+StateLabel+" of the Node; no value for a node that was never upgraded.", []string{"state"}, nil),
		since:   prometheus.NewDesc(namespace+"state_timestamp_seconds", "Unix time at which this state began.", nil, nil),
		cause:   prometheus.NewDesc(namespace+"cause", "1 while the upgrade waits for something or has failed, by code.", []string{"code"}, nil),
	}
}

// Describe sends the descriptions of all metrics.
func (m *Metrics) Describe(ch chan<- *prometheus.Desc) {
	ch <- m.state
	ch <- m.since
	ch <- m.cause
}

// Collect sends the current metrics.
func (m *Metrics) Collect(ch chan<- prometheus.Metric) {
	j := m.upgrade.Journal()
	if label := j.State.Label(); label != "" {
		ch <- prometheus.MustNewConstMetric(m.state, prometheus.GaugeValue, 1, label)
		ch <- prometheus.MustNewConstMetric(m.since, prometheus.GaugeValue, float64(j.Since.Unix()))
	}
	if j.Cause != nil {
		ch <- prometheus.MustNewConstMetric(m.cause, prometheus.GaugeValue, 1, string(j.Cause.Code))
	}
}
