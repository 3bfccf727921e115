package license

import "github.com/prometheus/client_golang/prometheus"

// Metrics exports the licenses of a Watch on /metrics.
type Metrics struct {
	watch            *Watch
	licensed, expiry *prometheus.Desc
}

// NewMetrics returns the metrics of a Watch.
func NewMetrics(w *Watch) *Metrics {
	const namespace = "outrigger_driver_loader_"
	labels := []string{"gpu", "product"}
	return &Metrics{
		watch:    w,
		licensed: prometheus.NewDesc(namespace+"vgpu_licensed", "1 if the virtual GPU has its license, 0 if not; absent while that is not known, and without a configured license.", labels, nil),
		expiry:   prometheus.NewDesc(namespace+"vgpu_license_expiry_timestamp_seconds", "When the license of the virtual GPU ends, if it has an end.", labels, nil),
	}
}

// Describe sends the descriptions of all metrics.
func (m *Metrics) Describe(ch chan<- *prometheus.Desc) {
	ch <- m.licensed
	ch <- m.expiry
}

// Collect sends the current metrics.
func (m *Metrics) Collect(ch chan<- prometheus.Metric) {
	seen := map[[2]string]bool{}
	for _, p := range m.watch.Products() {
		key := [2]string{p.GPU, p.Name}
		if seen[key] {
			continue
		}
		seen[key] = true
		licensed := 0.0
		if p.Licensed() {
			licensed = 1
		}
		ch <- prometheus.MustNewConstMetric(m.licensed, prometheus.GaugeValue, licensed, p.GPU, p.Name)
		if !p.Expiry.IsZero() {
			ch <- prometheus.MustNewConstMetric(m.expiry, prometheus.GaugeValue, float64(p.Expiry.Unix()), p.GPU, p.Name)
		}
	}
}
