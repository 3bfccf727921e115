package model

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// The states of a stage.
const (
	// Pending: an earlier stage is not ready yet.
	Pending = "Pending"
	// Progressing: its objects are applied, and no node is ready with them yet.
	Progressing = "Progressing"
	// Validating: at least one node is ready, and the validation runs.
	Validating = "Validating"
	// RollingOut: at least one node is ready and validated, and other nodes do not have the current
	// version yet or wait.
	RollingOut = "RollingOut"
	// Degraded: at least one node is ready and validated, and the others have failed.
	Degraded = "Degraded"
	// Ready: all nodes are ready, and the validation has passed or was skipped.
	Ready = "Ready"
	// NothingToDo: the stage's selector matches no node.
	NothingToDo = "NothingToDo"
	// Failed: the pass stops at this stage. Message has the reason.
	Failed = "Failed"
)

// Works reports whether a stage in this state is ready and validated on at least one node.
func Works(state string) bool { return state == RollingOut || state == Degraded || state == Ready }

// States returns the states of a stage.
func States() []string {
	return []string{Pending, Progressing, Validating, RollingOut, Degraded, Ready, NothingToDo, Failed}
}

// The types of conditions.
const (
	// ConditionReady: the cluster has a GPU node, and each stage is ready on at least one node.
	ConditionReady = "Ready"
	// ConditionDegraded: a node or a stage has failed.
	ConditionDegraded = "Degraded"
)

// The reasons of the condition Ready. If NVIDIA's GPU Operator has the same reason, the names are equal.
const (
	ReasonReconciled = "Reconciled"
	// ReasonNoGPUNodes: feature discovery ran, and found no GPU on any node.
	ReasonNoGPUNodes = "NoGPUNodes"
	// ReasonLabelsMissing: no node has a label of a GPU, and the policy enables no agent that
	// detects GPUs.
	ReasonLabelsMissing = "NFDLabelsMissing"
	// ReasonOperandNotReady: a stage is not ready on any node yet.
	ReasonOperandNotReady = "OperandNotReady"
	// ReasonNodesNotReady: all stages are ready, and GPUReady is not True on any node.
	ReasonNodesNotReady = "NodesNotReady"
	// ReasonReconcileFailed: the API server rejected an object, or another program manages it.
	ReasonReconcileFailed  = "ReconcileFailed"
	ReasonValidationFailed = "ValidationFailed"
	ReasonValuesRefused    = "ValuesRefused"
	ReasonDeleting         = "Deleting"
	// ReasonIgnored: an older policy is in effect.
	ReasonIgnored = "Ignored"
)

// The reasons of the condition Degraded.
const (
	ReasonNoFailure   = "NoFailure"
	ReasonStageFailed = "StageFailed"
	ReasonNodesFailed = "NodesFailed"
)

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
	// GPUNodes is the number of nodes with a GPU. ReadyNodes is the number of GPU nodes whose GPUs
	// can be used.
	GPUNodes   int `json:"gpuNodes"`
	ReadyNodes int `json:"readyNodes"`
	// Problems are the worst causes, each with its number of nodes.
	Problems  []Problem `json:"problems,omitempty"`
	Inventory []Ref     `json:"inventory,omitempty"`
}

// StageStatus is the status of one stage.
type StageStatus struct {
	Name  string `json:"name"`
	State string `json:"state"`
	// Desired, Ready, Failed and Waiting are numbers of nodes. A failed node needs a fix by a
	// person. A waiting node waits for a cause that Problems names.
	Desired int `json:"desired"`
	Ready   int `json:"ready"`
	Failed  int `json:"failed"`
	Waiting int `json:"waiting"`
	// Message says why the stage waits or failed, and how to fix it.
	Message     string             `json:"message,omitempty"`
	Validations []ValidationStatus `json:"validations,omitempty"`
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
	// Revision is the Check.Revision of the last complete run, which is not repeated.
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
