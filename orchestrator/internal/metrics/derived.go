package metrics

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"outrigger.dev/orchestrator/internal/model"
)

// described are the metrics that a status gives.
type described struct {
	gpuNodes, reconciliation, nfdLabels, success *prometheus.Desc
	readyNodes, stageState, stageNodes           *prometheus.Desc
	validationNodes, problemNodes                *prometheus.Desc
}

func describe() described {
	desc := func(namespace, name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(prometheus.BuildFQName(namespace, "", name), help, labels, nil)
	}
	return described{
		gpuNodes:       desc(theirs, "gpu_nodes_total", "Number of nodes with a GPU."),
		reconciliation: desc(theirs, "reconciliation_status", "1 while the policy is ready, 0 while a stage is not, -1 without a policy, -2 while a pass fails."),
		nfdLabels:      desc(theirs, "reconciliation_has_nfd_labels", "0 while no node has a label of a GPU and nothing looks for GPUs, otherwise 1."),
		success:        desc(theirs, "reconciliation_last_success_ts_seconds", "Time at which everything was last known to be ready, in seconds since 1970; 0 if it never was."),
		readyNodes:     desc(ours, "ready_nodes", "Number of nodes whose GPUs can be used."),
		stageState:     desc(ours, "stage_state", "1 for the state of a stage, 0 for the others.", "stage", "state"),
		stageNodes:     desc(ours, "stage_nodes", "Number of nodes of a stage that are ready, failed or waiting.", "stage", "state"),
		validationNodes: desc(ours, "validation_nodes", "Number of nodes on which a validation passed, failed or was skipped in its last run.",
			"stage", "validation", "state"),
		problemNodes: desc(ours, "problem_nodes", "Number of nodes with a problem: at most ten series, the worst.", "stage", "cause"),
	}
}

func (d *described) describe(ch chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{
		d.gpuNodes, d.reconciliation, d.nfdLabels, d.success, d.readyNodes, d.stageState, d.stageNodes, d.validationNodes, d.problemNodes,
	} {
		ch <- desc
	}
}

// collect sends the metrics of a status, which is nil without a policy.
func (d *described) collect(ch chan<- prometheus.Metric, s *model.Status, err bool) {
	sent := map[string]bool{}
	gauge := func(desc *prometheus.Desc, value int, labels ...string) {
		for i := range labels {
			labels[i] = strings.ToValidUTF8(labels[i], "?")
		}
		// Two series of the same name would make all metrics unreadable. Words from the cluster
		// can become equal when they are cut.
		series := desc.String() + strings.Join(labels, "\x00")
		if sent[series] {
			return
		}
		sent[series] = true
		ch <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, float64(value), labels...)
	}
	gauge(d.reconciliation, reconciliation(s, err))
	if s == nil {
		return
	}
	gauge(d.gpuNodes, s.GPUNodes)
	gauge(d.nfdLabels, one(readyReason(*s) != model.ReasonLabelsMissing))
	gauge(d.readyNodes, s.ReadyNodes)
	for _, st := range s.Stages {
		for _, state := range states() {
			gauge(d.stageState, one(st.State == state), st.Name, state)
		}
		gauge(d.stageNodes, st.Ready, st.Name, ready)
		gauge(d.stageNodes, st.Failed, st.Name, failed)
		gauge(d.stageNodes, st.Waiting, st.Name, waiting)
		for _, v := range st.Validations {
			gauge(d.validationNodes, v.Passed, st.Name, v.Name, passed)
			gauge(d.validationNodes, v.Failed, st.Name, v.Name, failed)
			gauge(d.validationNodes, v.Skipped, st.Name, v.Name, skipped)
		}
	}
	for _, p := range s.Problems {
		gauge(d.problemNodes, p.Nodes, p.Stage, p.Cause)
	}
}

// reconciliation returns the value of gpu_operator_reconciliation_status.
func reconciliation(s *model.Status, err bool) int {
	switch {
	case s == nil:
		return statusNoPolicy
	case err:
		return statusError
	case s.State == model.StateReady:
		return statusReady
	default:
		return statusNotReady
	}
}

func states() []string {
	return []string{model.Pending, model.Progressing, model.Validating, model.Ready, model.NothingToDo, model.Failed}
}

func one(b bool) int {
	if b {
		return 1
	}
	return 0
}
