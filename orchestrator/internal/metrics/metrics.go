// Package metrics exports the orchestrator's metrics on /metrics. If NVIDIA's GPU Operator has a
// metric with the same meaning, the names are equal, so that NVIDIA's alerts still work. The values
// of labels are stages, states, verbs and at most ten causes: the number of series does not grow
// with the number of nodes.
package metrics

import (
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"k8s.io/apimachinery/pkg/api/meta"

	"outrigger.dev/orchestrator/internal/model"
)

const (
	// gpuOperatorNamespace is the namespace of the metrics of NVIDIA's GPU Operator.
	gpuOperatorNamespace = "gpu_operator"
	ownNamespace         = "outrigger_orchestrator"
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

	// mu ensures that a scrape sees the values of a single pass.
	mu sync.Mutex
	// status is the value of gpu_operator_reconciliation_status.
	status float64
	// success is the time of the last known success, in seconds since 1970.
	success float64
	// derived are the metrics that are derived from a status, by name. They have no series without
	// a policy.
	derived map[string]*prometheus.GaugeVec
}

var _ prometheus.Collector = (*Recorder)(nil)

// New returns a Recorder without a policy. now is the clock.
func New(now func() time.Time) *Recorder {
	r := &Recorder{registry: prometheus.NewRegistry(), now: now, status: statusNoPolicy, derived: map[string]*prometheus.GaugeVec{}}
	add := promauto.With(r.registry)
	r.passes = add.NewCounter(prometheus.CounterOpts{Namespace: gpuOperatorNamespace, Name: "reconciliation_total", Help: "Number of passes."})
	r.failures = add.NewCounter(prometheus.CounterOpts{
		Namespace: gpuOperatorNamespace, Name: "reconciliation_failed_total", Help: "Number of passes that failed: an object could not be rendered, read or written.",
	})
	r.seconds = add.NewHistogram(prometheus.HistogramOpts{
		Namespace: ownNamespace, Name: "pass_seconds", Help: "Duration of a pass, its writes included.", Buckets: []float64{.001, .01, .1, 1, 10, 60},
	})
	r.writes = add.NewCounterVec(prometheus.CounterOpts{
		Namespace: ownNamespace, Name: "writes_total", Help: "Number of requests to the API server that write, by verb and result.",
	}, []string{"verb", "result"})
	add.NewGaugeFunc(prometheus.GaugeOpts{
		Namespace: gpuOperatorNamespace, Name: "reconciliation_status",
		Help: "1 while the policy is ready, 0 while no GPU node can be used, -1 without a policy, -2 while a pass fails.",
	}, func() float64 { return r.status })
	add.NewGaugeFunc(prometheus.GaugeOpts{
		Namespace: gpuOperatorNamespace, Name: "reconciliation_last_success_ts_seconds",
		Help: "Time at which the policy was last known to be ready, in seconds since 1970; 0 if it never was.",
	}, func() float64 { return r.success })
	gauge := func(namespace, name, help string, labels ...string) {
		r.derived[name] = add.NewGaugeVec(prometheus.GaugeOpts{Namespace: namespace, Name: name, Help: help}, labels)
	}
	gauge(gpuOperatorNamespace, "gpu_nodes_total", "Number of nodes with a GPU.")
	gauge(gpuOperatorNamespace, "reconciliation_has_nfd_labels", "0 while no node has a label of a GPU and nothing looks for GPUs, otherwise 1.")
	gauge(ownNamespace, "ready_nodes", "Number of nodes whose GPUs can be used.")
	gauge(ownNamespace, "stage_state", "1 for the state of a stage, 0 for the others.", "stage", "state")
	gauge(ownNamespace, "stage_nodes", "Number of nodes of a stage that are ready, failed or waiting.", "stage", "state")
	gauge(ownNamespace, "validation_nodes", "Number of nodes on which a validation passed, failed or was skipped in its last run.", "stage", "validation", "state")
	gauge(ownNamespace, "problem_nodes", "Number of nodes with a problem: at most ten series, the worst.", "stage", "cause")
	return r
}

// Passed records a pass with the status that it derived, and the error that ended it.
func (r *Recorder) Passed(s model.Status, took time.Duration, err error) {
	r.passes.Inc()
	r.seconds.Observe(took.Seconds())
	reason := reasonOf(s, model.ConditionDegraded)
	failed := err != nil || reason == model.ReasonValuesRefused || reason == model.ReasonReconcileFailed
	if failed {
		r.failures.Inc()
	}
	r.record(&s, failed)
}

// NoPolicy records that the cluster has no policy.
func (r *Recorder) NoPolicy() { r.record(nil, false) }

// record replaces all derived series. s is nil without a policy.
func (r *Recorder) record(s *model.Status, failed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.succeeded()
	for _, g := range r.derived {
		g.Reset()
	}
	switch {
	case s == nil:
		r.status = statusNoPolicy
		return
	case failed:
		r.status = statusError
	case s.State == model.StateReady:
		r.status = statusReady
	default:
		r.status = statusNotReady
	}
	r.add("gpu_nodes_total", s.GPUNodes)
	r.add("reconciliation_has_nfd_labels", boolToInt(reasonOf(*s, model.ConditionReady) != model.ReasonLabelsMissing))
	r.add("ready_nodes", s.ReadyNodes)
	for _, st := range s.Stages {
		for _, state := range model.States() {
			r.add("stage_state", boolToInt(st.State == state), st.Name, state)
		}
		r.add("stage_nodes", st.Ready, st.Name, "ready")
		r.add("stage_nodes", st.Failed, st.Name, "failed")
		r.add("stage_nodes", st.Waiting, st.Name, "waiting")
		for _, v := range st.Validations {
			r.add("validation_nodes", v.Passed, st.Name, v.Name, "passed")
			r.add("validation_nodes", v.Failed, st.Name, v.Name, "failed")
			r.add("validation_nodes", v.Skipped, st.Name, v.Name, "skipped")
		}
	}
	for _, p := range s.Problems {
		r.add("problem_nodes", p.Nodes, p.Stage, p.Cause)
	}
}

// add adds n to the series with these label values. Values that were cut can be equal, then the
// nodes are counted together.
func (r *Recorder) add(name string, n int, labels ...string) {
	for i := range labels {
		labels[i] = strings.ToValidUTF8(labels[i], "?")
	}
	r.derived[name].WithLabelValues(labels...).Add(float64(n))
}

func boolToInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// succeeded updates the time of the last success. The result of the last pass still holds, because
// a cluster without changes has no passes.
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

func reasonOf(s model.Status, condition string) string {
	if c := meta.FindStatusCondition(s.Conditions, condition); c != nil {
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
