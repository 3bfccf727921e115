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
	// RequestedAnnotation asks for one upgrade of a Node with the value "true", also where
	// upgrades are not automatic, and again after a failure.
	RequestedAnnotation = "nvidia.com/gpu-driver-upgrade-requested"
	// InitialAnnotation is "true" while a Node that somebody else had cordoned is upgraded.
	InitialAnnotation = "nvidia.com/gpu-driver-upgrade.node-initial-state.unschedulable"
	// WaitStartAnnotation and ValidationStartAnnotation are the Unix seconds at which the
	// wait for jobs and the validation began.
	WaitStartAnnotation       = "nvidia.com/gpu-driver-upgrade-wait-for-pod-completion-start-time"
	ValidationStartAnnotation = "nvidia.com/gpu-driver-upgrade-validation-start-time"
)

// Annotations of this project.
const (
	// CordonedAnnotation is written in the same patch as the cordon, so that a Node has it
	// exactly while it is this agent that cordoned it. Its value is the desired driver.
	CordonedAnnotation = "outrigger.dev/driver-upgrade-cordoned"
	// CauseAnnotation says why the upgrade waits or failed.
	CauseAnnotation = "outrigger.dev/driver-upgrade-cause"
	// GrantAnnotation permits the Node to begin its upgrade to a driver, the value. Package grants
	// writes it; the agent of a node cannot.
	GrantAnnotation = "outrigger.dev/driver-upgrade-granted"
	// DriverAnnotation is the driver of the upgrade whose state is in StateLabel.
	DriverAnnotation = "outrigger.dev/driver-upgrade-driver"
	// FailedAnnotation is the driver of the last upgrade that failed on the Node, until an upgrade
	// succeeds. The Node does not have it while a failed upgrade goes back.
	FailedAnnotation = "outrigger.dev/driver-upgrade-failed"
	// DaemonSetAnnotation is the DaemonSet of the agent, as namespace/name. It has the limits for
	// the Node.
	DaemonSetAnnotation = "outrigger.dev/driver-upgrade-daemonset"
)

// EventReason is the reason of Events about an upgrade, as that of NVIDIA's controller.
const EventReason = "GPUDriverUpgrade"
