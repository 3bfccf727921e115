package daemons

import "github.com/prometheus/client_golang/prometheus"

// NewMetrics returns a collector for the daemons of a Supervisor.
func NewMetrics(s *Supervisor) prometheus.Collector {
	running := prometheus.NewDesc("outrigger_driver_loader_daemon_running",
		"1 while a daemon of the driver runs that the machine needs, and 0 while it does not run.", []string{"daemon"}, nil)
	return prometheus.CollectorFunc(func(ch chan<- prometheus.Metric) {
		for _, d := range s.States() {
			is := 0.0
			if d.Running {
				is = 1
			}
			ch <- prometheus.MustNewConstMetric(running, prometheus.GaugeValue, is, d.Name)
		}
	})
}
