// Package metrics exports the state of feature discovery on /metrics.
package metrics

import (
	"strings"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"outrigger.dev/agents/feature-discovery/internal/discovery"
	"outrigger.dev/pkg/agent/configfile"
	"outrigger.dev/pkg/nodestate"
)

// Namespace is the prefix of the names of all metrics.
const Namespace = "outrigger_feature_discovery"

// Recorder records the desired state of feature discovery, and exports it as metrics.
type Recorder struct {
	*configfile.Metrics

	labels *prometheus.Desc
	ready  *prometheus.Desc

	desired atomic.Pointer[nodestate.Desired]
}

var (
	_ discovery.Recorder   = (*Recorder)(nil)
	_ prometheus.Collector = (*Recorder)(nil)
)

// New returns a Recorder without any state.
func New() *Recorder {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(prometheus.BuildFQName(Namespace, "", name), help, labels, nil)
	}
	return &Recorder{
		Metrics: configfile.NewMetrics(Namespace),
		labels:  desc("labels", "Number of labels in the desired state; absent while they are not known."),
		ready:   desc("gpu_ready", "1 while the GPUs of the node can be used, 0 while they cannot, with the reason of the condition GPUReady.", "reason"),
	}
}

// Desired records w as the desired state.
func (r *Recorder) Desired(w nodestate.Desired) { r.desired.Store(&w) }

// Describe sends the descriptions of all metrics that Collect may send.
func (r *Recorder) Describe(ch chan<- *prometheus.Desc) {
	r.Metrics.Describe(ch)
	ch <- r.labels
	ch <- r.ready
}

// Collect sends the current metrics.
func (r *Recorder) Collect(ch chan<- prometheus.Metric) {
	r.Metrics.Collect(ch)
	w := r.desired.Load()
	if w == nil {
		return
	}
	if w.Labels != nil {
		ch <- prometheus.MustNewConstMetric(r.labels, prometheus.GaugeValue, float64(len(w.Labels)))
	}
	if w.Condition != nil {
		v := 0.0
		if w.Condition.Status == "True" {
			v = 1
		}
		ch <- prometheus.MustNewConstMetric(r.ready, prometheus.GaugeValue, v, strings.ToValidUTF8(w.Condition.Reason, "?"))
	}
}
