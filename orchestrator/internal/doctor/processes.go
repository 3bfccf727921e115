package doctor

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	"outrigger.dev/orchestrator/internal/facts"
	"outrigger.dev/pkg/procowner"
)

// maxListed is the maximum number of processes of a node. An answer can be from a container that is not the agent.
const maxListed = 1000

// processesOn returns the processes that use the GPUs of a node, or nil if they are not known, and why some of them are not known.
func (d *diagnosis) processesOn(node string) (list []procowner.GPUProcess, why string) {
	i := slices.IndexFunc(d.answers[node], func(a facts.Answer) bool { return slices.Contains(a.Command, "processes") })
	if i < 0 {
		return nil, "the agent " + facts.Exporter + " has not answered there"
	}
	a := d.answers[node][i]
	if p := d.byName[a.Namespace+"/"+a.Pod]; p != nil && !p.Spec.HostPID {
		return nil, "the agent " + facts.Exporter + " does not share the PID namespace of the host: set hostPID of its chart"
	}
	var out struct {
		Processes []procowner.GPUProcess `json:"processes"`
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
