package gpu

// Fabric is the state of a GPU in its NVLink fabric: the switches of its board, or
// those that link several nodes. The fields are those of nvmlGpuFabricInfoV_t.
type Fabric struct {
	// State is the progress of the GPU in joining the fabric, which takes a while
	// after the driver has loaded.
	State FabricState `json:"state"`
	// Status is the result of joining, FabricSuccess or NVML's text of the error.
	// It is empty in any other state than FabricCompleted.
	Status string `json:"status,omitempty"`
	// ClusterUUID names the cluster of nodes that share the fabric, as in
	// "d1c4be3f-6f0a-4b1e-9d0c-3a5f0c5b7e21". It is empty where NVML answers
	// zeroes, for a fabric that ends with the node, and before it is joined.
	ClusterUUID string `json:"clusterUuid,omitempty"`
	// CliqueID numbers the groups of GPUs in a cluster within which each one
	// reaches all others.
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
