package manager

import "github.com/prometheus/client_golang/prometheus"

// Metrics exports the state of a Manager on /metrics.
type Metrics struct {
	manager                     *Manager
	state, users, changes, took *prometheus.Desc
}

// NewMetrics returns the metrics of a Manager.
func NewMetrics(m *Manager) *Metrics {
	const namespace = "outrigger_mig_manager_"
	return &Metrics{
		manager: m,
		state:   prometheus.NewDesc(namespace+"config_state", "1 for the state that nvidia.com/mig.config.state shows, 0 for the others.", []string{"state"}, nil),
		users:   prometheus.NewDesc(namespace+"waiting_for_users", "Number of containers and processes for which the change of the MIG layout waits.", nil, nil),
		changes: prometheus.NewDesc(namespace+"changes_total", "Attempts to change the MIG layouts, by result: success, failed, or busy if something in use was in the way.", []string{"result"}, nil),
		took:    prometheus.NewDesc(namespace+"last_change_seconds", "How long the last change took that succeeded; 0 if there was none.", nil, nil),
	}
}

// Describe sends the descriptions of all metrics.
func (m *Metrics) Describe(ch chan<- *prometheus.Desc) {
	ch <- m.state
	ch <- m.users
	ch <- m.changes
	ch <- m.took
}

// Collect sends the current metrics.
func (m *Metrics) Collect(ch chan<- prometheus.Metric) {
	s := m.manager.Stats()
	for _, state := range []State{Pending, Rebooting, Success, Failed} {
		value := 0.0
		if s.State == state {
			value = 1
		}
		ch <- prometheus.MustNewConstMetric(m.state, prometheus.GaugeValue, value, string(state))
	}
	ch <- prometheus.MustNewConstMetric(m.users, prometheus.GaugeValue, float64(s.Users))
	for result, n := range s.Changes {
		ch <- prometheus.MustNewConstMetric(m.changes, prometheus.CounterValue, float64(n), result)
	}
	ch <- prometheus.MustNewConstMetric(m.took, prometheus.GaugeValue, s.Took.Seconds())
}
