// Package manager keeps the MIG layouts of a node's GPUs in the state that a label of its Node
// selects. The loop observes the Node, the config, the GPUs and their users. Next derives the next
// action, which the loop performs. Package contract explains the fact mig-ready, and claims of NVML.
package manager

// Labels of NVIDIA's MIG manager.
const (
	// ConfigLabel selects the config of a node. Users and schedulers write it.
	ConfigLabel = "nvidia.com/mig.config"
	// StateLabel has the State of a node's config.
	StateLabel = "nvidia.com/mig.config.state"
)

// Annotations of this project.
const (
	// CauseAnnotation says why the config of a node is pending, failed or rebooting.
	CauseAnnotation = "outrigger.dev/mig-config-cause"
	// CordonedAnnotation is written in the same patch as the cordon. A Node has it exactly while it
	// is cordoned by this agent. Its value is the config.
	CordonedAnnotation = "outrigger.dev/mig-config-cordoned"
	// PausedAnnotation is written in the same patch as a pause of DaemonSets (nodestate.Pause). A Node has it exactly
	// while this agent pauses labels. Its value is the config.
	PausedAnnotation = "outrigger.dev/mig-config-paused"
)

// State is a value of StateLabel.
type State string

// The values of StateLabel.
const (
	Pending   State = "pending"
	Rebooting State = "rebooting"
	Success   State = "success"
	Failed    State = "failed"
)

// Policy selects the handling of pods that use instances or GPUs of a change.
type Policy string

// The policies.
const (
	// WaitForPods waits until the pods end.
	WaitForPods Policy = "wait"
	// EvictPods evicts the pods.
	EvictPods Policy = "evict"
	// FailOnPods reports that the config failed, until the pods end.
	FailOnPods Policy = "fail"
)

// Policies returns all policies.
func Policies() []Policy { return []Policy{WaitForPods, EvictPods, FailOnPods} }
