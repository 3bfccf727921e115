package metrics

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"outrigger.dev/orchestrator/internal/model"
)

// gauge is a metric that a status gives. It has no series without a policy.
type gauge struct {
	*prometheus.GaugeVec
	// fill adds the series of a status.
	fill func(s model.Status, add adder)
}

// adder adds to the series with these values of labels. Words from the cluster can become equal
// when they are cut: such nodes are counted together.
type adder func(nodes int, labels ...string)

func gauges(registered promauto.Factory) []gauge {
	own := func(name, help string, labels []string, fill func(model.Status, adder)) gauge {
		return gauge{registered.NewGaugeVec(prometheus.GaugeOpts{Namespace: ours, Name: name, Help: help}, labels), fill}
	}
	their := func(name, help string, value func(model.Status) int) gauge {
		vec := registered.NewGaugeVec(prometheus.GaugeOpts{Namespace: theirs, Name: name, Help: help}, nil)
		return gauge{vec, func(s model.Status, add adder) { add(value(s)) }}
	}
	return []gauge{
		their("gpu_nodes_total", "Number of nodes with a GPU.", func(s model.Status) int { return s.GPUNodes }),
		their("reconciliation_has_nfd_labels", "0 while no node has a label of a GPU and nothing looks for GPUs, otherwise 1.",
			func(s model.Status) int { return one(readyReason(s) != model.ReasonLabelsMissing) }),
		own("ready_nodes", "Number of nodes whose GPUs can be used.", nil, func(s model.Status, add adder) { add(s.ReadyNodes) }),
		own("stage_state", "1 for the state of a stage, 0 for the others.", []string{"stage", "state"}, stageStates),
		own("stage_nodes", "Number of nodes of a stage that are ready, failed or waiting.", []string{"stage", "state"}, stageNodes),
		own("validation_nodes", "Number of nodes on which a validation passed, failed or was skipped in its last run.",
			[]string{"stage", "validation", "state"}, validationNodes),
		own("problem_nodes", "Number of nodes with a problem: at most ten series, the worst.", []string{"stage", "cause"},
			func(s model.Status, add adder) {
				for _, p := range s.Problems {
					add(p.Nodes, p.Stage, p.Cause)
				}
			}),
	}
}

// set replaces all series by those of a status, which is nil without a policy.
func (g gauge) set(s *model.Status) {
	g.Reset()
	if s == nil {
		return
	}
	g.fill(*s, func(nodes int, labels ...string) {
		for i := range labels {
			labels[i] = strings.ToValidUTF8(labels[i], "?")
		}
		g.WithLabelValues(labels...).Add(float64(nodes))
	})
}

func stageStates(s model.Status, add adder) {
	for _, st := range s.Stages {
		for _, state := range model.States() {
			add(one(st.State == state), st.Name, state)
		}
	}
}

func stageNodes(s model.Status, add adder) {
	for _, st := range s.Stages {
		add(st.Ready, st.Name, "ready")
		add(st.Failed, st.Name, "failed")
		add(st.Waiting, st.Name, "waiting")
	}
}

func validationNodes(s model.Status, add adder) {
	for _, st := range s.Stages {
		for _, v := range st.Validations {
			add(v.Passed, st.Name, v.Name, "passed")
			add(v.Failed, st.Name, v.Name, "failed")
			add(v.Skipped, st.Name, v.Name, "skipped")
		}
	}
}

// reconciliation returns the value of gpu_operator_reconciliation_status.
func reconciliation(s *model.Status, err bool) float64 {
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

func one(b bool) int {
	if b {
		return 1
	}
	return 0
}
