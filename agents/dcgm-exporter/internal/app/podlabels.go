package app

import (
	"log/slog"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"outrigger.dev/agents/dcgm-exporter/internal/podinfo"
)

// The bounds of the labels of pods, in bytes of names and values. Each metric of a device repeats the
// labels of the pod that uses the device, and tenants choose the labels.
const (
	// podBytes is the bound for one pod. Labels of most pods have less than 1 KiB.
	podBytes = 4 << 10
	// nodeBytes is the bound for all users of devices together. Each user has the same share.
	nodeBytes = 256 << 10
)

// labelBound limits the size of the labels of pods in metrics. One goroutine calls apply; another
// may collect.
type labelBound struct {
	log *slog.Logger
	// cut counts the labels that were left out, by the UIDs of pods.
	cut     map[string]int
	total   atomic.Uint64
	dropped *prometheus.Desc
}

func newLabelBound(log *slog.Logger) *labelBound {
	return &labelBound{log: log, cut: map[string]int{}, dropped: prometheus.NewDesc("exporter_pod_labels_dropped_total",
		"Labels of pods that metrics do not have, because labels may have 4 KiB per pod, and 256 KiB for all users of GPUs of the node.", nil, nil)}
}

// maxCut is the largest number of pods in cut.
const maxCut = 1000

// apply returns the first labels of a pod, up to the share of one user of devices. The parameter
// uses is the number of users. apply counts the labels that it leaves out once for each pod, and
// logs when it first leaves out labels of a pod.
func (b *labelBound) apply(pod podinfo.Pod, uses int) []podinfo.Label {
	left, kept := min(podBytes, nodeBytes/max(uses, 1)), 0
	for _, l := range pod.Labels {
		if left -= len(l.Name) + len(l.Value); left < 0 {
			break
		}
		kept++
	}
	cut, known := len(pod.Labels)-kept+pod.Omitted, b.cut[pod.UID]
	if cut > known {
		if len(b.cut) >= maxCut {
			clear(b.cut)
		}
		b.cut[pod.UID] = cut
		b.total.Add(uint64(cut - known)) //nolint:gosec // positive
	}
	if cut > 0 && known == 0 {
		b.log.Warn("the labels of a pod are too large for metrics, serving the first: select labels with --kubernetes-pod-label-allowlist-regex",
			"namespace", pod.Namespace, "pod", pod.Name, "served", kept, "dropped", cut)
	}
	return pod.Labels[:kept]
}

// Describe sends the description of the metric.
func (b *labelBound) Describe(ch chan<- *prometheus.Desc) { ch <- b.dropped }

// Collect sends the metric.
func (b *labelBound) Collect(ch chan<- prometheus.Metric) {
	ch <- prometheus.MustNewConstMetric(b.dropped, prometheus.CounterValue, float64(b.total.Load()))
}
