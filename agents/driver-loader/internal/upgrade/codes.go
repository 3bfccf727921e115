package upgrade

import "outrigger.dev/agents/driver-loader/internal/cause"

// Codes of causes.
const (
	// CodeHalted is a fleet in which too many nodes failed.
	CodeHalted cause.Code = "UpgradeHalted"
	// CodeNoSlot is a node that waits for a grant.
	CodeNoSlot cause.Code = "WaitingForUpgradeSlot"
	// CodeInterrupted is an action that did not survive several starts.
	CodeInterrupted cause.Code = "UpgradeInterrupted"
	// CodeFailed is a failure that is no cause by itself.
	CodeFailed cause.Code = "UpgradeFailed"
	// CodeTemporary is a failure after which an action that leaves the driver untouched is tried
	// again: the API server does not answer.
	CodeTemporary cause.Code = "TemporaryFailure"
	// CodeWaiting are pods that have not gone yet.
	CodeWaiting cause.Code = "WaitingForPods"
	// CodePodsLeft are pods that have not gone in time, and CodePodsRefused pods that may not
	// be evicted.
	CodePodsLeft    cause.Code = "PodsLeft"
	CodePodsRefused cause.Code = "PodsRefused"
)
