package upgrade

// State is the state of a node's upgrade. The journal has it.
type State string

// The states of NVIDIA's upgrade controller, in the order of a successful upgrade. They are values of
// StateLabel.
const (
	Idle        State = ""
	Required    State = "upgrade-required"
	Cordoning   State = "cordon-required"
	WaitingJobs State = "wait-for-jobs-required"
	DeletingPod State = "pod-deletion-required"
	Draining    State = "drain-required"
	Swapping    State = "pod-restart-required"
	Validating  State = "validation-required"
	Uncordoning State = "uncordon-required"
	Done        State = "upgrade-done"
	Failed      State = "upgrade-failed"
)

// Additional states for failures, which NVIDIA's controller does not have.
const (
	// RollingBack loads the previous driver.
	RollingBack State = "roll-back"
	// Restoring makes the node schedulable again after a failure.
	Restoring State = "restore"
	// Yielding makes the node schedulable again because it has lost its grant, or because the upgrade is
	// not desired any more. The upgrade has not failed.
	Yielding State = "yield"
	// RollingBackToYield is RollingBack, followed by Yielding.
	RollingBackToYield State = "roll-back-to-yield"
)

// Label returns the value of StateLabel for the state. It is always a value of NVIDIA's controller.
func (s State) Label() string {
	switch s {
	case RollingBack, Restoring:
		return string(Failed)
	case Yielding, RollingBackToYield:
		return string(Required)
	default:
		return string(s)
	}
}

// Known reports whether s is a valid state.
func (s State) Known() bool {
	switch s {
	case Idle, Required, Cordoning, WaitingJobs, DeletingPod, Draining, Swapping, Validating, Uncordoning, Done, Failed,
		RollingBack, Restoring, Yielding, RollingBackToYield:
		return true
	default:
		return false
	}
}

// Active reports whether the upgrade is running. The node may be cordoned, and without a driver.
func (s State) Active() bool { return s.Known() && !s.resting() && s != Required }

// Changing reports whether the upgrade is changing the driver, so that the loader must not change it.
func (s State) Changing() bool {
	switch s {
	case Swapping, Validating, RollingBack, RollingBackToYield:
		return true
	default:
		return false
	}
}

// goingBack reports whether a failed upgrade has not ended yet. Its label is already the label of Failed.
func (s State) goingBack() bool { return s == RollingBack || s == Restoring }

// resting reports whether the state lasts until the desired driver changes.
func (s State) resting() bool { return s == Idle || s == Done || s == Failed }

// beforeSwap reports whether the upgrade is running and has not changed the driver.
func (s State) beforeSwap() bool {
	switch s {
	case Cordoning, WaitingJobs, DeletingPod, Draining:
		return true
	default:
		return false
	}
}
