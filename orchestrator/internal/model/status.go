package model

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The states of a stage. Except for Waiting and for objects that cannot be applied, they follow from
// the numbers of nodes.
const (
	// Waiting: a stage that it needs does not work on any node yet.
	Waiting = "Waiting"
	// Progressing: some nodes do not have the current version yet, or wait, and no node has failed.
	Progressing = "Progressing"
	// Ready: it works on all nodes.
	Ready = "Ready"
	// Degraded: it has failed on some nodes.
	Degraded = "Degraded"
	// Failed: it has failed on all nodes, or its objects cannot be applied.
	Failed = "Failed"
)

// States returns the states of a stage.
func States() []string { return []string{Waiting, Progressing, Ready, Degraded, Failed} }

// Broken reports whether a stage in this state has failed on a node.
func Broken(state string) bool { return state == Degraded || state == Failed }

// The types of conditions.
const (
	// ConditionReady: the values are accepted, and the GPUs of at least one node can be used.
	ConditionReady = "Ready"
	// ConditionProgressing: the values are not applied on all nodes yet.
	ConditionProgressing = "Progressing"
	// ConditionDegraded: a node or a stage has failed.
	ConditionDegraded = "Degraded"

	// A policy has the following conditions only while they are True.

	// ConditionValuesIgnored names the values that have no effect, or another default than in NVIDIA's chart.
	ConditionValuesIgnored = "ValuesIgnored"
	// ConditionOtherOperator names objects of NVIDIA's GPU Operator, which would configure the same nodes.
	ConditionOtherOperator = "OtherOperator"
)

// The reasons of the conditions. If NVIDIA's GPU Operator has the same reason, the names are equal.
const (
	ReasonReconciled = "Reconciled"
	// ReasonNoGPUNodes: feature discovery ran, and found no GPU on any node.
	ReasonNoGPUNodes = "NoGPUNodes"
	// ReasonLabelsMissing: no node has a label of a GPU, and the policy enables no agent that
	// detects GPUs.
	ReasonLabelsMissing = "NFDLabelsMissing"
	// ReasonNodesNotReady: the GPUs of no node can be used.
	ReasonNodesNotReady = "NodesNotReady"
	ReasonValuesRefused = "ValuesRefused"
	ReasonDeleting      = "Deleting"
	// ReasonIgnored: an older policy is in effect.
	ReasonIgnored = "Ignored"

	// ReasonRollingOut: the condition Progressing names the first stage that is not applied on all nodes.
	ReasonRollingOut = "RollingOut"
	// ReasonApplied: all stages are applied on all nodes, and validated.
	ReasonApplied = "Applied"

	ReasonNoFailure = "NoFailure"
	// ReasonReconcileFailed: the API server rejected an object, or another program manages it.
	ReasonReconcileFailed = "ReconcileFailed"
	// ReasonStageFailed: a stage has failed on all nodes.
	ReasonStageFailed      = "StageFailed"
	ReasonValidationFailed = "ValidationFailed"
	ReasonNodesFailed      = "NodesFailed"

	ReasonWithoutEffect = "WithoutEffect"
	ReasonObjectsFound  = "ObjectsFound"
)

// ReasonNamespaceKept is the reason of an Event: a namespace stays because it has objects of other programs.
const ReasonNamespaceKept = "NamespaceKept"

// The states of a policy.
const (
	StateReady    = "ready"
	StateNotReady = "notReady"
	StateIgnored  = "ignored"
)

// Status is the status of a ClusterPolicy. Lists have a bounded length.
type Status struct {
	// State is ready, notReady or ignored, the values of NVIDIA's GPU Operator.
	State              string             `json:"state,omitempty"`
	ObservedGeneration int64              `json:"observedGeneration,omitempty"`
	Conditions         []metav1.Condition `json:"conditions,omitempty"`
	// Stages are in apply order.
	Stages []StageStatus `json:"stages,omitempty"`
	// GPUNodes is the number of nodes with a GPU that are not opted out. ReadyNodes is the number of
	// GPU nodes whose GPUs can be used.
	GPUNodes   int `json:"gpuNodes"`
	ReadyNodes int `json:"readyNodes"`
	// Problems are the worst causes, each with its number of nodes.
	Problems  []Problem `json:"problems,omitempty"`
	Inventory []Ref     `json:"inventory,omitempty"`
}

// Namespaces returns the namespaces of the applied objects of some kinds. No kind means all.
func (s Status) Namespaces(kinds ...string) map[string]bool {
	all := map[string]bool{}
	for _, r := range s.Inventory {
		if (len(kinds) == 0 || slices.Contains(kinds, r.Kind)) && r.Namespace != "" {
			all[r.Namespace] = true
		}
	}
	return all
}

// StageStatus is the status of one stage.
type StageStatus struct {
	Name  string `json:"name"`
	State string `json:"state"`
	// Desired, Ready, Failed and Waiting are numbers of nodes. A failed node needs a fix by a
	// person. A waiting node starts.
	Desired int `json:"desired"`
	Ready   int `json:"ready"`
	Failed  int `json:"failed"`
	Waiting int `json:"waiting"`
	// Message says why the stage waits or failed, and how to fix it.
	Message     string             `json:"message,omitempty"`
	Validations []ValidationStatus `json:"validations,omitempty"`
}

// Fails reports whether a validation has failed on all nodes. A repetition does not end the failure.
func (v ValidationStatus) Fails() bool {
	return v.State == "Failed" || v.State == "Running" && v.Revision == "" && v.Failed > 0 && v.Passed == 0
}

// Ended reports whether a validation has a result for a revision. A repetition has the result of the
// run before.
func (v ValidationStatus) Ended(revision string) bool {
	return v.Time != nil && (v.Revision == revision && v.State != "Running" || v.Revision == "")
}

// ValidationStatus is the result of one validation.
type ValidationStatus struct {
	Name string `json:"name"`
	// State is Running, Passed, Failed or Skipped.
	State string `json:"state"`
	// Passed, Failed and Skipped are numbers of nodes.
	Passed  int    `json:"passed"`
	Failed  int    `json:"failed"`
	Skipped int    `json:"skipped"`
	Message string `json:"message,omitempty"`
	// Revision is the Check.Revision of the last complete run. It is empty before that, and while a run that has not
	// passed is repeated.
	Revision string       `json:"of,omitempty"`
	Time     *metav1.Time `json:"time,omitempty"`
}

// Problem is a cause and the nodes that have it.
type Problem struct {
	// Cause is one word: a reason of GPUReady, of the kubelet or of the scheduler.
	Cause string `json:"cause"`
	Stage string `json:"stage,omitempty"`
	// Nodes is the number of nodes, and Examples lists the names of some.
	Nodes    int      `json:"nodes"`
	Examples []string `json:"examples,omitempty"`
	// Message is the message of the agent or the kubelet, and Fix says how to fix the cause.
	Message string      `json:"message"`
	Fix     string      `json:"fix,omitempty"`
	Since   metav1.Time `json:"since"`
}
