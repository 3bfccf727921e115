package procowner

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"outrigger.dev/pkg/hostfs"
	"outrigger.dev/pkg/text"
)

// Root has the paths of the host's files.
type Root struct {
	// Proc is the folder of the host's procfs. If empty, it is /proc.
	Proc string
	// PodLogs is the kubelet's folder with the logs of pods, which has the names of pods. If empty,
	// it is /var/log/pods.
	PodLogs string
}

// Folder returns the folder of the host's procfs.
func (r Root) Folder() string { return cmp.Or(r.Proc, "/proc") }

// Process is a process and its owner.
type Process struct {
	PID int
	// Command is the name of the process, of at most 15 bytes, empty if it is not known. The
	// process can change it.
	Command string
	Owner   Owner
	// Pod is the name of the pod, empty if it is not known.
	Pod Pod
}

// maxFile is the maximum number of bytes that are read from a file of a process.
const maxFile = 64 << 10

// Process returns the known properties of a process, without the name of its pod. It omits
// properties that cannot be read.
func (r Root) Process(pid int) Process {
	p := Process{PID: pid}
	dir := filepath.Join(r.Folder(), strconv.Itoa(pid))
	// The command line is in the memory of the process, which a hung driver may have locked. The
	// name of the process is not.
	if data, err := hostfs.ReadFile(filepath.Join(dir, "comm"), maxFile); err == nil {
		p.Command = text.Printable(strings.TrimSpace(string(data)))
	}
	if data, err := hostfs.ReadFile(filepath.Join(dir, "cgroup"), maxFile); err == nil {
		p.Owner = Parse(string(data))
	}
	return p
}

// NamePods adds the known names of the pods of processes. It reads the folder with the logs of pods
// if one of the processes is in a pod.
func (r Root) NamePods(processes []Process) {
	if !slices.ContainsFunc(processes, func(p Process) bool { return p.Owner.Pod != "" }) {
		return
	}
	pods, err := Pods(cmp.Or(r.PodLogs, "/var/log/pods"))
	if err != nil {
		return // the UIDs remain
	}
	for i := range processes {
		processes[i].Pod = pods[processes[i].Owner.Pod]
	}
}

// String returns the process in a form for people: "pod default/train, python3 (pid 4711)".
func (p Process) String() string {
	process := fmt.Sprintf("%s (pid %d)", cmp.Or(p.Command, "process"), p.PID)
	switch {
	case p.Pod.Name != "":
		return "pod " + p.Pod.Namespace + "/" + p.Pod.Name + ", " + process
	case p.Owner.Pod != "":
		return "pod with uid " + p.Owner.Pod + ", " + process
	case p.Owner.Container != "":
		return "container " + p.Owner.Container + ", " + process
	case p.Owner.Unit != "":
		return "unit " + p.Owner.Unit + ", " + process
	}
	return process
}
