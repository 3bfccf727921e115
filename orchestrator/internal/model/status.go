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
	// RollingOut: at least one node is ready and validated, and others are on their way.
	RollingOut = "RollingOut"
	// Degraded: at least one node is ready and validated, and the others have failed.
	Degraded = "Degraded"
	// Ready: all nodes are ready, and the validation has passed or was skipped.
	Ready = "Ready"
	// NothingToDo: no node of the cluster matches.
	NothingToDo = "NothingToDo"
	// Failed: the pass stops here, and Message says why.
	Failed = "Failed"
)

// Works reports whether a stage in this state works on at least one node.
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

// The reasons of the condition Ready. Those that NVIDIA's GPU Operator has too keep its names.
const (
	ReasonReconciled = "Reconciled"
	// ReasonNoGPUNodes: feature discovery looked, and no node has a GPU.
	ReasonNoGPUNodes = "NoGPUNodes"
	// ReasonLabelsMissing: no node has a label of a GPU, and the policy has nothing that looks
	// for GPUs.
	ReasonLabelsMissing = "NFDLabelsMissing"
	// ReasonOperandNotReady: a stage is not ready on any node yet.
	ReasonOperandNotReady = "OperandNotReady"
	// ReasonNodesNotReady: all stages are ready, and no node has GPUReady.
	ReasonNodesNotReady = "NodesNotReady"
	// ReasonReconcileFailed: the API server rejected an object, or it belongs to somebody else.
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
	// State is ready, notReady or ignored, as NVIDIA's GPU Operator has it.
	State              string             `json:"state,omitempty"`
	ObservedGeneration int64              `json:"observedGeneration,omitempty"`
	Conditions         []metav1.Condition `json:"conditions,omitempty"`
	// Stages are in order.
	Stages []StageStatus `json:"stages,omitempty"`
	// GPUNodes is the number of nodes with a GPU; ReadyNodes of those, how many have GPUReady.
	GPUNodes   int `json:"gpuNodes"`
	ReadyNodes int `json:"readyNodes"`
	// Problems are the worst causes, with the number of nodes that each concerns.
	Problems  []Problem `json:"problems,omitempty"`
	Inventory []Ref     `json:"inventory,omitempty"`
}

// StageStatus is the status of one stage.
type StageStatus struct {
	Name  string `json:"name"`
	State string `json:"state"`
	// Desired, Ready, Failed and Waiting are numbers of nodes. Failed ones need a person;
	// waiting ones wait for something that is named.
	Desired int `json:"desired"`
	Ready   int `json:"ready"`
	Failed  int `json:"failed"`
	Waiting int `json:"waiting"`
	// Message says what the stage waits for, or why it failed, and the fix.
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
	// Revision is Check.Of of the last complete run, which is not repeated.
	Revision string       `json:"of,omitempty"`
	Time     *metav1.Time `json:"time,omitempty"`
}

// Problem is one cause on one or several nodes.
type Problem struct {
	// Cause is one word: a reason of GPUReady, of the kubelet or of the scheduler.
	Cause string `json:"cause"`
	Stage string `json:"stage,omitempty"`
	// Nodes is the number of nodes, and Examples names a few.
	Nodes    int      `json:"nodes"`
	Examples []string `json:"examples,omitempty"`
	// Message is the agent's or the kubelet's own text, and Fix what to do.
	Message string      `json:"message"`
	Fix     string      `json:"fix,omitempty"`
	Since   metav1.Time `json:"since"`
}
