package ready

// Condition is the type of the condition.
const Condition = "GPUReady"

// The values of a condition's status.
const (
	True    = "True"
	False   = "False"
	Unknown = "Unknown"
)

// GPUsReady is the reason for status True: all links hold. If some GPUs do not work, the
// message names them.
const GPUsReady = "GPUsReady"
