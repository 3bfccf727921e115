package gpu

// Fabric is the state of a GPU in its NVLink fabric. The fabric consists of the switches of a
// board, or of switches that link several nodes. The fields are from nvmlGpuFabricInfoV_t.
type Fabric struct {
	// State is the progress of the GPU in joining the fabric. Joining takes a while after the
	// driver has loaded.
	State FabricState `json:"state"`
	// Status is the result of joining: FabricSuccess, or NVML's text of the error. It is empty in
	// every state except FabricCompleted.
	Status string `json:"status,omitempty"`
	// ClusterUUID names the cluster of nodes that share the fabric, as in
	// "d1c4be3f-6f0a-4b1e-9d0c-3a5f0c5b7e21". It is empty before the GPU has joined the fabric. It
	// is also empty for a fabric of one node: NVML returns zeroes for it.
	ClusterUUID string `json:"clusterUuid,omitempty"`
	// CliqueID is the number of the GPU's clique: a group of GPUs in a cluster that can all reach
	// each other.
	CliqueID uint32 `json:"cliqueId"`
}

// FabricState is a value of nvmlGpuFabricState_t. A GPU that answers
// NVML_GPU_FABRIC_STATE_NOT_SUPPORTED has no Fabric.
type FabricState string

// The values of FabricState.
const (
	FabricNotStarted FabricState = "not-started"
	FabricInProgress FabricState = "in-progress"
	FabricCompleted  FabricState = "completed"
)

// FabricSuccess is the Status of a GPU that has joined its fabric.
const FabricSuccess = "success"
