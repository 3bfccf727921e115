package ready

// Condition is the type of the condition.
const Condition = "GPUReady"

// The values of a condition's status.
const (
	True    = "True"
	False   = "False"
	Unknown = "Unknown"
)

// GPUsReady is the reason while all links hold, with status True. GPUs that do
// not work, among others that do, are named in the message.
const GPUsReady = "GPUsReady"

// The reasons for status Unknown.
const (
	// Starting: what the condition tells has not been looked at yet.
	Starting = "Starting"
	// DriverClaimed: another agent needs NVML for itself for a while, and has
	// since before the GPUs were looked at.
	DriverClaimed = "DriverClaimed"
)

// The reasons of the link driver for status False.
const (
	// DriverNotFound: there is no driver that can be used. The library is
	// missing, the kernel module is not loaded or of another version, or the
	// agent may not open the device nodes.
	DriverNotFound = "DriverNotFound"
	// DriverHangs: the driver neither answers nor refuses. No container that uses
	// a GPU can start.
	DriverHangs = "DriverHangs"
	// DriverFails: the driver is there, and answers with an error that concerns
	// the whole node.
	DriverFails = "DriverFails"
	// NoGPU: the driver answers and shows no GPU.
	NoGPU = "NoGPU"
	// AllGPUsFaulty: none of the GPUs works.
	AllGPUsFaulty = "AllGPUsFaulty"
)

// The reasons of the links that are facts of the node contract, for status
// False. NotReady: no agent has told the fact. Stale: it was told before the last
// boot, or for another driver. WriterDead: the agent that told it has ended.
// Unreadable: its file cannot be read or understood.
const (
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
