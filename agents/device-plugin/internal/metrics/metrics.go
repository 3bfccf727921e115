// Package metrics serves the metrics of the device plugin on /metrics.
//
// No label has free text. The reason why a device is unhealthy or not advertised is a code of
// package cause. The log and the Event have the full sentence.
package metrics

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"outrigger.dev/agents/device-plugin/internal/inventory"
	"outrigger.dev/agents/device-plugin/internal/server"
	"outrigger.dev/pkg/agent/configfile"
	"outrigger.dev/pkg/cause"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/resource"
)

// Recorder records events and the advertised resources, and serves them as metrics.
type Recorder struct {
	*configfile.Metrics

	registrations *prometheus.CounterVec
	allocations   *prometheus.CounterVec
	latency       *prometheus.HistogramVec
	xids          *prometheus.CounterVec
	health        *prometheus.Desc
	replicas      *prometheus.Desc
	unlisted      *prometheus.Desc
	waiting       *prometheus.Desc

	mu   sync.Mutex
	set  resource.Set
	kind cause.Code
}

var (
	_ inventory.Recorder   = (*Recorder)(nil)
	_ server.Recorder      = (*Recorder)(nil)
	_ prometheus.Collector = (*Recorder)(nil)
)

// New returns a Recorder. The names of its metrics begin with namespace, for example
// "outrigger_device_plugin".
func New(namespace string) *Recorder {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help}, labels)
	}
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(prometheus.BuildFQName(namespace, "", name), help, labels, nil)
	}
	return &Recorder{
		Metrics:       configfile.NewMetrics(namespace),
		registrations: counter("registrations_total", "Registrations with the kubelet, by result.", "resource", "result"),
		allocations:   counter("allocations_total", "Calls of Allocate by the kubelet, by result.", "resource", "result"),
		latency: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: namespace,
			Name:      "allocate_duration_seconds",
			Help:      "Time to answer a call of Allocate.",
			Buckets:   []float64{1e-5, 2.5e-5, 5e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 5e-3, 1e-2, 0.1},
		}, []string{"resource"}),
		xids: counter("xid_events_total", "XIDs that the driver reported, including ignored ones; instance is <gpu instance>[/<compute instance>].",
			"gpu", "instance", "xid"),
		health: desc("device_health", "1 for a device that is advertised as healthy, 0 for one that is unhealthy, with the class of the reason.",
			"resource", "device", "index", "reason"),
		replicas: desc("device_replicas", "How many times a device is advertised.", "resource", "device", "index"),
		unlisted: desc("unlisted_gpu", "1 for each GPU or MIG device that cannot be advertised, with the class of the reason.", "index", "reason"),
		waiting:  desc("waiting", "1 while the GPUs of the node cannot be advertised, with the class of the reason.", "reason"),
	}
}

// Registered counts a registration.
func (r *Recorder) Registered(res string, err error) {
	r.registrations.WithLabelValues(res, result(err)).Inc()
}

// Allocated counts a call of Allocate.
func (r *Recorder) Allocated(res string, took time.Duration, err error) {
	r.allocations.WithLabelValues(res, result(err)).Inc()
	r.latency.WithLabelValues(res).Observe(took.Seconds())
}

// Event counts an XID.
func (r *Recorder) Event(ev gpu.Event) {
	if ev.Kind == gpu.EventXID {
		r.xids.WithLabelValues(label(string(ev.GPU)), instance(ev), strconv.FormatUint(ev.XID, 10)).Inc()
	}
}

// instance returns the MIG instance that an event concerns, or "" for the whole GPU.
func instance(ev gpu.Event) string {
	switch {
	case ev.GPUInstance == gpu.NoInstance:
		return ""
	case ev.ComputeInstance == gpu.NoInstance:
		return fmt.Sprint(ev.GPUInstance)
	default:
		return fmt.Sprintf("%d/%d", ev.GPUInstance, ev.ComputeInstance)
	}
}

// Advertised records the advertised resources.
func (r *Recorder) Advertised(set resource.Set) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.set = set
}

// Waiting records why the GPUs cannot be advertised, or "" if they are advertised.
func (r *Recorder) Waiting(kind cause.Code) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.kind = kind
}

// Describe sends the descriptions of all metrics that Collect may send.
func (r *Recorder) Describe(ch chan<- *prometheus.Desc) {
	for _, c := range r.counted() {
		c.Describe(ch)
	}
	for _, d := range []*prometheus.Desc{r.health, r.replicas, r.unlisted, r.waiting} {
		ch <- d
	}
}

// Collect sends the current metrics.
func (r *Recorder) Collect(ch chan<- prometheus.Metric) {
	for _, c := range r.counted() {
		c.Collect(ch)
	}
	r.mu.Lock()
	set, kind := r.set, r.kind
	r.mu.Unlock()
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		for i, l := range labels {
			labels[i] = label(l)
		}
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	for _, res := range set.Resources {
		for _, d := range res.Devices {
			v := 0.0
			if d.Health.Healthy {
				v = 1
			}
			gauge(r.health, v, res.Name, string(d.UUID), d.Index, string(d.Health.Kind))
			gauge(r.replicas, float64(max(d.Replicas, 1)), res.Name, string(d.UUID), d.Index)
		}
	}
	for _, u := range set.Unlisted {
		if u.Kind != cause.DeviceExcluded {
			gauge(r.unlisted, 1, u.Index, string(u.Kind))
		}
	}
	if kind != "" {
		gauge(r.waiting, 1, string(kind))
	}
}

func (r *Recorder) counted() []prometheus.Collector {
	return []prometheus.Collector{r.registrations, r.allocations, r.latency, r.xids, r.Metrics}
}

// label returns a text as a valid value of a label. Invalid UTF-8, which the driver may report
// as a UUID, would end the process.
func label(text string) string { return strings.ToValidUTF8(text, "?") }

func result(err error) string {
	if err != nil {
		return "error"
	}
	return "ok"
}
