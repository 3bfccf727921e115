// Package manager keeps the MIG layouts of a node's GPUs as a label of its Node asks: it
// observes the Node, the config, the GPUs and who uses them, Next derives the next action, and
// the loop takes it.
package manager

// Labels of NVIDIA's MIG manager.
const (
	// ConfigLabel names the config of a node. People and schedulers write it.
	ConfigLabel = "nvidia.com/mig.config"
	// StateLabel has the State of the config of a node.
	StateLabel = "nvidia.com/mig.config.state"
)

// Annotations of this project.
const (
	// CauseAnnotation says why the config of a node is pending, failed or rebooting.
	CauseAnnotation = "outrigger.dev/mig-config-cause"
	// CordonedAnnotation is written in the same patch as the cordon, so that a Node has it
	// exactly while it is this agent that cordoned it. Its value is the config.
	CordonedAnnotation = "outrigger.dev/mig-config-cordoned"
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

// Policy says what to do about pods that hold what a change destroys.
type Policy string

// The policies.
const (
	// WaitForPods waits until they end.
	WaitForPods Policy = "wait"
	// EvictPods evicts them.
	EvictPods Policy = "evict"
	// FailOnPods makes the config fail until they end.
	FailOnPods Policy = "fail"
)

// Policies returns all policies.
func Policies() []Policy { return []Policy{WaitForPods, EvictPods, FailOnPods} }
