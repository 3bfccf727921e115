// Package eviction is what the agent and the program driver-loader-drain say to each other:
// a Request as JSON on standard input, Lines of JSON on standard output, and exit codes.
package eviction

// Program is the name of the program that evicts pods.
const Program = "driver-loader-drain"

// Mode is what the program does.
type Mode string

// The modes of the program.
const (
	// Await waits until the pods of PodSelector have ended by themselves.
	Await Mode = "await"
	// GPUPods evicts the pods that hold GPUs, or none of them if one may not be evicted.
	GPUPods Mode = "gpu-pods"
	// AllPods evicts all pods of PodSelector, except those of DaemonSets and static pods.
	AllPods Mode = "all-pods"
)

// Request is one run of the program.
type Request struct {
	Mode Mode   `json:"mode"`
	Node string `json:"node"`
	// PodSelector is a label selector; empty for all pods.
	PodSelector string `json:"podSelector,omitempty"`
	// TimeoutSeconds bounds the run; 0 for no limit.
	TimeoutSeconds int `json:"timeoutSeconds"`
	// Force evicts pods without a controller, which nothing creates again.
	Force bool `json:"force"`
	// DeleteEmptyDir evicts pods that lose the data of an emptyDir.
	DeleteEmptyDir bool `json:"deleteEmptyDir"`
}

// Event is what happened to a pod.
type Event string

// The events of pods.
const (
	// Running is a pod that is awaited.
	Running Event = "running"
	// Evicting is a pod whose eviction was asked for, and Evicted one that is gone.
	Evicting Event = "evicting"
	Evicted  Event = "evicted"
	// Blocked is a pod that may not be evicted at the moment. It is tried again.
	Blocked Event = "blocked"
	// Left is a pod that stays, and does not prevent the upgrade.
	Left Event = "left"
	// Refused is a pod that may not be evicted at all.
	Refused Event = "refused"
	// Failed is a pod of which the program could not do what it should.
	Failed Event = "failed"
)

// Line is one line of progress.
type Line struct {
	Event Event `json:"event"`
	// Pod is its namespace and name: "default/train-0".
	Pod string `json:"pod"`
	// Budget is the PodDisruptionBudget that blocks it, in the namespace of the pod.
	Budget string `json:"budget,omitempty"`
	// Text says why.
	Text string `json:"text,omitempty"`
}

// The exit codes of the program.
const (
	// ExitDone is the success: no such pod is left.
	ExitDone = 0
	// ExitTemporary is a failure, such as that of the API server, that may pass.
	ExitTemporary = 1
	// ExitUsage is a wrong flag or Request.
	ExitUsage = 2
	// ExitTimeout is the end of TimeoutSeconds: pods are left.
	ExitTimeout = 3
	// ExitRefused is a pod that may not be evicted. Nothing was evicted.
	ExitRefused = 4
)
