package manager

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// namespace is the prefix of the names of metrics.
const namespace = "outrigger_mig_manager"

// The results of attempts.
const (
	succeeded = "success"
	failed    = "failed"
	busy      = "busy"
)

// metrics holds the metrics of a Manager.
type metrics struct {
	state       *prometheus.GaugeVec
	users, took prometheus.Gauge
	changes     *prometheus.CounterVec
}

func newMetrics() metrics {
	gauge := func(name, help string) prometheus.GaugeOpts {
		return prometheus.GaugeOpts{Namespace: namespace, Name: name, Help: help}
	}
	m := metrics{
		state: prometheus.NewGaugeVec(gauge("config_state", "1 for the state that nvidia.com/mig.config.state shows, 0 for the others."), []string{"state"}),
		users: prometheus.NewGauge(gauge("waiting_for_users", "Number of containers and processes for which the change of the MIG layout waits.")),
		took:  prometheus.NewGauge(gauge("last_change_seconds", "Duration of the last successful change; 0 if there was none.")),
		changes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: namespace, Name: "changes_total", Help: "Attempts to change the MIG layouts, by result: success, failed, or busy if a GPU or MIG device was in use.",
		}, []string{"result"}),
	}
	m.setState("")
	for _, result := range []string{succeeded, failed, busy} {
		m.changes.WithLabelValues(result)
	}
	return m
}

// setState exports the published state.
func (m metrics) setState(is State) {
	for _, state := range []State{Pending, Rebooting, Success, Failed} {
		value := 0.0
		if state == is {
			value = 1
		}
		m.state.WithLabelValues(string(state)).Set(value)
	}
}

// count counts an attempt with its duration.
func (m metrics) count(result string, took time.Duration) {
	m.changes.WithLabelValues(result).Inc()
	if result == succeeded {
		m.took.Set(took.Seconds())
	}
}

// Collectors returns the collectors of the metrics.
func (m *Manager) Collectors() []prometheus.Collector {
	return []prometheus.Collector{m.metrics.state, m.metrics.users, m.metrics.changes, m.metrics.took}
}
