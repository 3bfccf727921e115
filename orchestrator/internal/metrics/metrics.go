// Package metrics exports what the orchestrator does and finds on /metrics: under the names of
// NVIDIA's GPU Operator where the meaning is equal, so that alerts go on working, and under
// names of its own. A label is a stage, a state, a cause of at most ten, or a verb: the number
// of series does not grow with the number of nodes.
package metrics

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"k8s.io/apimachinery/pkg/api/meta"

	"outrigger.dev/orchestrator/internal/model"
)

const (
	// theirs is the namespace of the names that NVIDIA's GPU Operator has.
	theirs = "gpu_operator"
	ours   = "outrigger_orchestrator"
)

// The values of gpu_operator_reconciliation_status, as NVIDIA's GPU Operator defines them.
const (
	statusReady    = 1
	statusNotReady = 0
	statusNoPolicy = -1
	statusError    = -2
)

// Recorder records passes and writes, and exports them as metrics.
type Recorder struct {
	registry         *prometheus.Registry
	now              func() time.Time
	passes, failures prometheus.Counter
	seconds          prometheus.Histogram
	writes           *prometheus.CounterVec

	// mu lets a scrape see one pass, and no halves of two.
	mu sync.Mutex
	// status is the value of gpu_operator_reconciliation_status.
	status float64
	// success is when everything was last known to be ready, in seconds since 1970.
	success float64
	derived []gauge
}

var _ prometheus.Collector = (*Recorder)(nil)

// New returns a Recorder that knows of no policy. now is the clock.
func New(now func() time.Time) *Recorder {
	r := &Recorder{registry: prometheus.NewRegistry(), now: now, status: statusNoPolicy}
	add := promauto.With(r.registry)
	r.passes = add.NewCounter(prometheus.CounterOpts{Namespace: theirs, Name: "reconciliation_total", Help: "Number of passes."})
	r.failures = add.NewCounter(prometheus.CounterOpts{
		Namespace: theirs, Name: "reconciliation_failed_total", Help: "Number of passes that failed: an object could not be rendered, read or written.",
	})
	r.seconds = add.NewHistogram(prometheus.HistogramOpts{
		Namespace: ours, Name: "pass_seconds", Help: "Duration of a pass, its writes included.", Buckets: []float64{.001, .01, .1, 1, 10, 60},
	})
	r.writes = add.NewCounterVec(prometheus.CounterOpts{
		Namespace: ours, Name: "writes_total", Help: "Number of requests to the API server that write, by verb and result.",
	}, []string{"verb", "result"})
	add.NewGaugeFunc(prometheus.GaugeOpts{
		Namespace: theirs, Name: "reconciliation_status",
		Help: "1 while the policy is ready, 0 while a stage is not, -1 without a policy, -2 while a pass fails.",
	}, func() float64 { return r.status })
	add.NewGaugeFunc(prometheus.GaugeOpts{
		Namespace: theirs, Name: "reconciliation_last_success_ts_seconds",
		Help: "Time at which everything was last known to be ready, in seconds since 1970; 0 if it never was.",
	}, func() float64 { return r.success })
	r.derived = gauges(add)
	return r
}

// Passed records a pass with the status that it derived, and the error that ended it.
func (r *Recorder) Passed(s model.Status, took time.Duration, err error) {
	r.passes.Inc()
	r.seconds.Observe(took.Seconds())
	broken := err != nil || refused(s)
	if broken {
		r.failures.Inc()
	}
	r.record(&s, broken)
}

// NoPolicy records that the cluster has no policy.
func (r *Recorder) NoPolicy() { r.record(nil, false) }

func (r *Recorder) record(s *model.Status, err bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.succeeded()
	r.status = reconciliation(s, err)
	for _, g := range r.derived {
		g.set(s)
	}
}

// succeeded notes that what the last pass found has held until now: a cluster at rest has no
// passes.
func (r *Recorder) succeeded() {
	if r.status == statusReady {
		r.success = float64(r.now().Unix())
	}
}

// Wrote records a write: apply, create, delete, status or event.
func (r *Recorder) Wrote(verb string, err error) {
	result := "ok"
	if err != nil {
		result = "error"
	}
	r.writes.WithLabelValues(verb, result).Inc()
}

// refused reports whether a pass could not do what the policy asks for.
func refused(s model.Status) bool {
	reason := readyReason(s)
	return reason == model.ReasonValuesRefused || reason == model.ReasonReconcileFailed
}

func readyReason(s model.Status) string {
	if c := meta.FindStatusCondition(s.Conditions, model.ConditionReady); c != nil {
		return c.Reason
	}
	return ""
}

// Describe sends the descriptions of all metrics.
func (r *Recorder) Describe(ch chan<- *prometheus.Desc) { r.registry.Describe(ch) }

// Collect sends all metrics.
func (r *Recorder) Collect(ch chan<- prometheus.Metric) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.succeeded()
	r.registry.Collect(ch)
}
