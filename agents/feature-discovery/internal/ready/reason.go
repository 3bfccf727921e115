package ready

// Condition is the type of the condition.
const Condition = "GPUReady"

// The values of a condition's status.
const (
	True    = "True"
	False   = "False"
	Unknown = "Unknown"
)

// GPUsReady is the reason for status True: all links hold. If some GPUs work and
// others do not, the message names those that do not.
const GPUsReady = "GPUsReady"
