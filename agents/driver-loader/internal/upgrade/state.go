package upgrade

// State is where a node is in its upgrade. The journal has it.
type State string

// The states of NVIDIA's upgrade controller, in the order of an upgrade that succeeds. They
// are the values of StateLabel.
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

// The states of the way back, which NVIDIA's controller does not have.
const (
	// RollingBack loads the previous driver.
	RollingBack State = "roll-back"
	// Restoring makes the node schedulable again after a failure.
	Restoring State = "restore"
	// Yielding makes the node schedulable again because it lost its grant, or the upgrade is no
	// longer desired. That is no failure.
	Yielding State = "yield"
	// RollingBackToYield is RollingBack followed by Yielding.
	RollingBackToYield State = "roll-back-to-yield"
)

// Label returns the value of StateLabel for the state: a value that tools for NVIDIA's
// controller know.
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

// Known reports whether s is a state of a journal.
func (s State) Known() bool {
	switch s {
	case Idle, Required, Cordoning, WaitingJobs, DeletingPod, Draining, Swapping, Validating, Uncordoning, Done, Failed,
		RollingBack, Restoring, Yielding, RollingBackToYield:
		return true
	default:
		return false
	}
}

// Active reports whether the node is in the upgrade: it may be cordoned, and without a driver.
func (s State) Active() bool { return s.Known() && !s.resting() && s != Required }

// Changing reports whether the upgrade changes the driver, so that nobody else may.
func (s State) Changing() bool {
	switch s {
	case Swapping, Validating, RollingBack, RollingBackToYield:
		return true
	default:
		return false
	}
}

// goingBack reports whether the upgrade failed and has not ended: the label is that of Failed already.
func (s State) goingBack() bool { return s == RollingBack || s == Restoring }

// resting reports whether the state lasts until the desired driver changes.
func (s State) resting() bool { return s == Idle || s == Done || s == Failed }

// beforeSwap reports whether the node is in the upgrade, and its driver is untouched.
func (s State) beforeSwap() bool {
	switch s {
	case Cordoning, WaitingJobs, DeletingPod, Draining:
		return true
	default:
		return false
	}
}
