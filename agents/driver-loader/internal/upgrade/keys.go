package upgrade

// Labels and annotations of NVIDIA's upgrade controller (k8s-operator-libs, package upgrade,
// with the driver name "gpu").
const (
	// StateLabel is the label of a Node with the state of its upgrade.
	StateLabel = "nvidia.com/gpu-driver-upgrade-state"
	// SkipLabel excludes a Node from upgrades with the value "true".
	SkipLabel = "nvidia.com/gpu-driver-upgrade.skip"
	// PodSkipLabel keeps a pod on its node with the value "true".
	PodSkipLabel = "nvidia.com/gpu-driver-upgrade-drain.skip"
	// RequestedAnnotation requests one upgrade of a Node with the value "true", even if upgrades are
	// not automatic or the last one has failed.
	RequestedAnnotation = "nvidia.com/gpu-driver-upgrade-requested"
	// InitialAnnotation is "true" during the upgrade of a Node that was already cordoned.
	InitialAnnotation = "nvidia.com/gpu-driver-upgrade.node-initial-state.unschedulable"
	// WaitStartAnnotation and ValidationStartAnnotation have the start times of the wait for jobs and
	// of the validation, in Unix seconds.
	WaitStartAnnotation       = "nvidia.com/gpu-driver-upgrade-wait-for-pod-completion-start-time"
	ValidationStartAnnotation = "nvidia.com/gpu-driver-upgrade-validation-start-time"
)

// Annotations of this project.
const (
	// CordonedAnnotation is written in the same patch as the cordon. A Node has it exactly while it is
	// cordoned by this agent. Its value is the desired driver.
	CordonedAnnotation = "outrigger.dev/driver-upgrade-cordoned"
	// PausedAnnotation is written in the same patch as a pause of DaemonSets (nodestate.Pause). A Node has it exactly
	// while this agent pauses labels. Its value is the desired driver.
	PausedAnnotation = "outrigger.dev/driver-upgrade-paused"
	// CauseAnnotation says why the upgrade waits or failed.
	CauseAnnotation = "outrigger.dev/driver-upgrade-cause"
	// GrantAnnotation permits the Node to begin the upgrade to the driver in its value. Package
	// grants writes it. The agents of nodes cannot write it.
	GrantAnnotation = "outrigger.dev/driver-upgrade-granted"
	// DriverAnnotation is the driver that the upgrade loads. StateLabel has the state of the same
	// upgrade.
	DriverAnnotation = "outrigger.dev/driver-upgrade-driver"
	// FailedAnnotation is the driver of the last failed upgrade of the Node, until an upgrade succeeds. The
	// Node does not have it during the rollback.
	FailedAnnotation = "outrigger.dev/driver-upgrade-failed"
	// DaemonSetAnnotation is the agent's DaemonSet, as namespace/name. The DaemonSet has the limits for the
	// Node.
	DaemonSetAnnotation = "outrigger.dev/driver-upgrade-daemonset"
)

// EventReason is the reason of Events about an upgrade, as in NVIDIA's controller.
const EventReason = "GPUDriverUpgrade"
