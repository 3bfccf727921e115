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

// The reasons for status Unknown.
const (
	// Starting: the node has not been checked yet.
	Starting = "Starting"
	// DriverClaimed: another agent has had exclusive use of NVML since before the
	// GPUs were read for the first time.
	DriverClaimed = "DriverClaimed"
)

// The reasons of the link driver for status False.
const (
	// DriverNotFound: there is no usable driver. The library is missing, the kernel
	// module is not loaded or has another version, or the agent cannot open the
	// device nodes.
	DriverNotFound = "DriverNotFound"
	// DriverHangs: the driver does not answer. No container that uses a GPU can
	// start.
	DriverHangs = "DriverHangs"
	// DriverFails: the driver answers with an error for the whole node.
	DriverFails = "DriverFails"
	// NoGPU: the driver answers and lists no GPU.
	NoGPU = "NoGPU"
	// AllGPUsFaulty: none of the GPUs works.
	AllGPUsFaulty = "AllGPUsFaulty"
)

// The reasons of the links that are facts of the node contract, for status
// False. NotReady: no agent has written the fact. Stale: it was written before the
// last boot, or for another driver. WriterDead: the agent that wrote it has ended.
// Unreadable: its file cannot be read or parsed.
const (
	MIGNotReady   = "MIGNotReady"
	MIGStale      = "MIGStale"
	MIGWriterDead = "MIGWriterDead"
	MIGUnreadable = "MIGUnreadable"

	ToolkitNotReady   = "ToolkitNotReady"
	ToolkitStale      = "ToolkitStale"
	ToolkitWriterDead = "ToolkitWriterDead"
	ToolkitUnreadable = "ToolkitUnreadable"

	PluginNotReady   = "PluginNotReady"
	PluginStale      = "PluginStale"
	PluginWriterDead = "PluginWriterDead"
	PluginUnreadable = "PluginUnreadable"

	CUDANotReady   = "CUDANotReady"
	CUDAStale      = "CUDAStale"
	CUDAWriterDead = "CUDAWriterDead"
	CUDAUnreadable = "CUDAUnreadable"
)
