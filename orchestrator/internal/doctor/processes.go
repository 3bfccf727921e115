package doctor

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"outrigger.dev/orchestrator/internal/facts"
)

// Process is a process that uses a GPU, as the command processes of the exporter prints it.
type Process struct {
	// GPU is the index of the GPU. GPUInstance is nil for the whole GPU.
	GPU         int     `json:"gpu"`
	UUID        string  `json:"uuid,omitempty"`
	GPUInstance *uint32 `json:"gpuInstance,omitempty"`
	PID         int     `json:"pid"`
	Command     string  `json:"command,omitempty"`
	Namespace   string  `json:"namespace,omitempty"`
	Pod         string  `json:"pod,omitempty"`
	PodUID      string  `json:"podUID,omitempty"`
	Container   string  `json:"container,omitempty"`
	Unit        string  `json:"unit,omitempty"`
	// MemoryMiB is 0 if it is not known.
	MemoryMiB uint64 `json:"memoryMiB,omitempty"`
}

// pod returns "namespace/name", or "" if no pod is known.
func (p Process) pod() string {
	if p.Pod == "" {
		return ""
	}
	return p.Namespace + "/" + p.Pod
}

// String returns the process for people: "python3 (pid 4711) uses GPU 0, 20.0 GiB".
func (p Process) String() string {
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

// maxListed is the maximum number of processes of a node. An answer can be from a container that is not the agent.
const maxListed = 1000

// processesOn returns the processes that use the GPUs of a node, or nil if they are not known, and why some of them are not known.
func (d *diagnosis) processesOn(node string) (list []Process, why string) {
	i := slices.IndexFunc(d.answers[node], func(a facts.Answer) bool { return slices.Contains(a.Command, "processes") })
	if i < 0 {
		return nil, "the agent " + facts.Exporter + " has not answered there"
	}
	a := d.answers[node][i]
	if p := d.byName[a.Namespace+"/"+a.Pod]; p != nil && !p.Spec.HostPID {
		return nil, "the agent " + facts.Exporter + " does not share the PID namespace of the host: set hostPID of its chart"
	}
	var out struct {
		Processes []Process `json:"processes"`
	}
	if err := json.Unmarshal([]byte(a.Output), &out); err != nil || out.Processes == nil {
		return nil, cmp.Or(a.Error, "the agent "+facts.Exporter+" has another version")
	}
	for i := range out.Processes {
		p := &out.Processes[i]
		for _, field := range []*string{&p.UUID, &p.Command, &p.Namespace, &p.Pod, &p.PodUID, &p.Container, &p.Unit} {
			*field = clean(strings.TrimSpace(*field))
		}
	}
	return out.Processes[:min(len(out.Processes), maxListed)], a.Error
}
