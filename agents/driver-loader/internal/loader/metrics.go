package loader

import "github.com/prometheus/client_golang/prometheus"

// NewMetrics returns a collector for the state of a Loader.
func NewMetrics(l *Loader) prometheus.Collector {
	const namespace = "outrigger_driver_loader_"
	ready := prometheus.NewDesc(namespace+"ready", "1 while the driver is loaded and works; 0 while it is not, as /readyz explains.", nil, nil)
	driver := prometheus.NewDesc(namespace+"driver_info", "1, with version and kernel module type of the driver, while it is ready.", []string{"version", "type"}, nil)
	causes := prometheus.NewDesc(namespace+"causes", "Number of causes why the desired driver is not ready, by code.", []string{"code"}, nil)
	optional := prometheus.NewDesc(namespace+"optional_module_loaded",
		"1 for a selected optional module that is loaded, and 0 for one that is not loaded, with the code of the cause.", []string{"module", "code"}, nil)
	return prometheus.CollectorFunc(func(ch chan<- prometheus.Metric) {
		state := l.State()
		is := 0.0
		if state.Kind == Done {
			is = 1
			ch <- prometheus.MustNewConstMetric(driver, prometheus.GaugeValue, 1, state.Driver.Version, string(state.Driver.Flavour))
		}
		ch <- prometheus.MustNewConstMetric(ready, prometheus.GaugeValue, is)
		for _, m := range state.Optional {
			is, code := 0.0, ""
			if m.Loaded {
				is = 1
			}
			if m.Cause != nil {
				code = string(m.Cause.Code)
			}
			ch <- prometheus.MustNewConstMetric(optional, prometheus.GaugeValue, is, m.Module, code)
		}
		counts := map[string]int{}
		for _, c := range state.Causes {
			counts[string(c.Code)]++
		}
		for code, n := range counts {
			ch <- prometheus.MustNewConstMetric(causes, prometheus.GaugeValue, float64(n), code)
		}
	})
}

// NewKernelMetrics returns a collector for the modules of a new kernel.
func NewKernelMetrics(k *Kernels) prometheus.Collector {
	built := prometheus.NewDesc("outrigger_driver_loader_next_kernel_built",
		"1 if the store has the modules for an installed update of the running kernel, 0 if not, with the code of the cause; absent without such a kernel.", []string{"kernel", "code"}, nil)
	return prometheus.CollectorFunc(func(ch chan<- prometheus.Metric) {
		next := k.Next()
		if next.Release == "" {
			return
		}
		is, code := 0.0, ""
		if next.Built {
			is = 1
		}
		if next.Cause != nil {
			code = string(next.Cause.Code)
		}
		ch <- prometheus.MustNewConstMetric(built, prometheus.GaugeValue, is, next.Release, code)
	})
}
