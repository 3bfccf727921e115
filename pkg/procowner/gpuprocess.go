package procowner

import (
	"cmp"
	"fmt"
)

// GPUProcess is a process that has a CUDA context on a GPU, in the output of the DCGM exporter's command processes.
type GPUProcess struct {
	// GPU is the index of the GPU, and UUID its UUID.
	GPU  int    `json:"gpu"`
	UUID string `json:"uuid"`
	// GPUInstance is nil for the whole GPU.
	GPUInstance *uint32 `json:"gpuInstance,omitempty"`
	// PID is 0 if the exporter does not share the PID namespace of the host.
	PID     int    `json:"pid"`
	Command string `json:"command,omitempty"`
	// Namespace and Pod name the pod of the process. PodUID is its UID, also if the name is not known.
	Namespace string `json:"namespace,omitempty"`
	Pod       string `json:"pod,omitempty"`
	PodUID    string `json:"podUID,omitempty"`
	// Container is the ID of a container outside of pods, and Unit the systemd unit of another process.
	Container string `json:"container,omitempty"`
	Unit      string `json:"unit,omitempty"`
	// MemoryMiB is 0 if it is not known.
	MemoryMiB uint64 `json:"memoryMiB,omitempty"`
}

// PodName returns "namespace/name", or "" if no pod is known.
func (p GPUProcess) PodName() string {
	if p.Pod == "" {
		return ""
	}
	return p.Namespace + "/" + p.Pod
}

// String returns the process for people: "python3 (pid 4711) uses GPU 0, 20.0 GiB".
func (p GPUProcess) String() string {
	name := cmp.Or(p.Command, "a process")
	if p.PID > 0 {
		name += fmt.Sprintf(" (pid %d)", p.PID)
	}
	switch {
	case p.Pod != "":
	case p.PodUID != "":
		name += " of the pod with the UID " + p.PodUID
	case p.Container != "":
		name += " of the container " + p.Container
	case p.Unit != "":
		name += " of " + p.Unit
	}
	on := fmt.Sprintf("GPU %d", p.GPU)
	if p.GPUInstance != nil {
		on = fmt.Sprintf("GPU instance %d of ", *p.GPUInstance) + on
	}
	switch {
	case p.MemoryMiB >= 1024:
		on += fmt.Sprintf(", %.1f GiB", float64(p.MemoryMiB)/1024)
	case p.MemoryMiB > 0:
		on += fmt.Sprintf(", %d MiB", p.MemoryMiB)
	}
	return name + " uses " + on
}
