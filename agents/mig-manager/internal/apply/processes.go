package apply

import (
	"cmp"
	"path/filepath"
	"strconv"
	"strings"

	"outrigger.dev/pkg/gpu/mig"
	"outrigger.dev/pkg/hostfs"
	"outrigger.dev/pkg/procowner"
	"outrigger.dev/pkg/text"
)

// Processes says where the names of processes and pods are.
type Processes struct {
	// Proc is the host's /proc, and PodLogs the kubelet's folder with the logs of pods. They
	// are "/proc" and "/var/log/pods" by default.
	Proc, PodLogs string
	// Driver is where /proc has what the driver shows. By default, it is Proc.
	Driver string
}

// maxFile is the most bytes of a file of a process that are read.
const maxFile = 64 << 10

// name returns what is known of processes. What cannot be read is left out.
func (p Processes) name(list []mig.Process) []Holder {
	out := make([]Holder, 0, len(list))
	pods := false
	for _, one := range list {
		h := Holder{PID: one.PID, GPUInstance: one.GPUInstance, ComputeInstance: one.ComputeInstance}
		dir := filepath.Join(cmp.Or(p.Proc, "/proc"), strconv.Itoa(one.PID))
		// The command line is in the memory of the process, which a hung driver may have locked.
		if data, err := hostfs.ReadFile(filepath.Join(dir, "comm"), maxFile); err == nil {
			h.Command = text.Printable(strings.TrimSpace(string(data)))
		}
		if data, err := hostfs.ReadFile(filepath.Join(dir, "cgroup"), maxFile); err == nil {
			h.Owner = procowner.Parse(string(data))
		}
		pods = pods || h.Owner.Pod != ""
		out = append(out, h)
	}
	if !pods {
		return out
	}
	names, err := procowner.Pods(cmp.Or(p.PodLogs, "/var/log/pods"))
	if err != nil {
		return out // the UIDs remain
	}
	for i := range out {
		out[i].Pod = names[out[i].Owner.Pod]
	}
	return out
}
