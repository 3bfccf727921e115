package upgrade

import "github.com/prometheus/client_golang/prometheus"

// NewMetrics returns a collector for the state of an Upgrade.
func NewMetrics(u *Upgrade) prometheus.Collector {
	const namespace = "outrigger_driver_loader_upgrade_"
	state := prometheus.NewDesc(namespace+"state", "1 for the state of the node's upgrade, by the value of the label "+StateLabel+" of the Node; absent if the node was never upgraded.", []string{"state"}, nil)
	since := prometheus.NewDesc(namespace+"state_timestamp_seconds", "Unix time at which this state began.", nil, nil)
	cause := prometheus.NewDesc(namespace+"cause", "1 while the upgrade waits for something or has failed, by code.", []string{"code"}, nil)
	return prometheus.CollectorFunc(func(ch chan<- prometheus.Metric) {
		j := u.Journal()
		if label := j.State.Label(); label != "" {
			ch <- prometheus.MustNewConstMetric(state, prometheus.GaugeValue, 1, label)
			ch <- prometheus.MustNewConstMetric(since, prometheus.GaugeValue, float64(j.Since.Unix()))
		}
		if j.Cause != nil {
			ch <- prometheus.MustNewConstMetric(cause, prometheus.GaugeValue, 1, string(j.Cause.Code))
		}
	})
}
