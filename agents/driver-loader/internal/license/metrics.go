package license

import "github.com/prometheus/client_golang/prometheus"

// NewMetrics returns a collector for the licenses of a Watch.
func NewMetrics(w *Watch) prometheus.Collector {
	const namespace = "outrigger_driver_loader_"
	labels := []string{"gpu", "product"}
	licensed := prometheus.NewDesc(namespace+"vgpu_licensed", "1 if the virtual GPU has its license, 0 if not; absent if it is unknown, or if no license is configured.", labels, nil)
	expiry := prometheus.NewDesc(namespace+"vgpu_license_expiry_timestamp_seconds", "Unix time at which the license of the virtual GPU expires, if it expires.", labels, nil)
	return prometheus.CollectorFunc(func(ch chan<- prometheus.Metric) {
		seen := map[[2]string]bool{}
		for _, p := range w.Products() {
			key := [2]string{p.GPU, p.Name}
			if seen[key] {
				continue
			}
			seen[key] = true
			is := 0.0
			if p.Licensed() {
				is = 1
			}
			ch <- prometheus.MustNewConstMetric(licensed, prometheus.GaugeValue, is, p.GPU, p.Name)
			if !p.Expiry.IsZero() {
				ch <- prometheus.MustNewConstMetric(expiry, prometheus.GaugeValue, float64(p.Expiry.Unix()), p.GPU, p.Name)
			}
		}
	})
}
