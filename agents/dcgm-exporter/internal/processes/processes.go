// Package processes finds the pod and container of a process that uses a GPU.
//
// The file /proc/PID/cgroup has the UID of the pod and the ID of the container. The name of the
// pod comes from the API server, if the exporter has access to it, or otherwise from the kubelet's
// folder with the logs of pods. The PodResources API has no UIDs, and the kubelet's checkpoints
// are private. The name of the container comes only from the API server. Process.User needs the
// name only if several containers of the pod use the device.
//
// NVML reports processes by their IDs in the PID namespace of the exporter. So the exporter's pod
// has to share the PID namespace of the host (hostPID).
package processes

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
	"syscall"

	"outrigger.dev/agents/dcgm-exporter/internal/podinfo"
	"outrigger.dev/pkg/hostfs"
	"outrigger.dev/pkg/podresources"
	"outrigger.dev/pkg/procowner"
)

// maxCgroupFile is the limit for the size of /proc/PID/cgroup, in bytes.
const maxCgroupFile = 64 << 10

// Process has the pod, container or unit of a process. Unknown fields are empty. All fields are
// empty for a process outside of pods, containers and units.
type Process struct {
	// PodUID is the UID that the kubelet assigns to the pod. The Pod object of a static pod has
	// another UID.
	PodUID         string
	Namespace, Pod string
	// Container is the name of the container in its pod, and ContainerID is its ID.
	Container, ContainerID string
	// Unit is the systemd unit of a process outside of containers.
	Unit string
}

// Pods finds pods by their UIDs, as podinfo.Pods does.
type Pods interface {
	ByUID(uid string) (podinfo.Pod, bool)
}

var _ Pods = (*podinfo.Pods)(nil)

// Config configures a Resolver.
type Config struct {
	// Proc is the folder of the host's procfs. The default is /proc.
	Proc string
	// Logs is the kubelet's folder with the logs of pods. The default is /var/log/pods.
	Logs string
	// Pods has the pods from the API server. It is nil without access to the API server.
	Pods Pods
}

// Resolver finds the pods and containers of processes. It is not safe for concurrent use.
type Resolver struct {
	cfg Config
	// podsByUID has the pods from the folder of logs, as last read.
	podsByUID map[string]procowner.Pod
}

// New returns a Resolver.
func New(cfg Config) *Resolver {
	cfg.Proc, cfg.Logs = cmp.Or(cfg.Proc, "/proc"), cmp.Or(cfg.Logs, "/var/log/pods")
	return &Resolver{cfg: cfg}
}

// Resolve returns the pod and container of each process. It omits processes that have ended. If a
// process or the names of pods cannot be read, it returns an error and the other processes. It
// reads one file for each process, and also the folder of logs if the name of a pod is unknown.
func (r *Resolver) Resolve(pids []int) (map[int]Process, error) {
	out := make(map[int]Process, len(pids))
	var failed error
	unnamed := false
	for _, pid := range pids {
		p, err := r.read(pid)
		switch {
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ESRCH):
			continue
		case err != nil:
			failed = err // one error is enough
			continue
		}
		r.addNames(&p)
		unnamed = unnamed || p.PodUID != "" && p.Pod == ""
		out[pid] = p
	}
	if !unnamed {
		return out, failed
	}
	named, err := procowner.Pods(r.cfg.Logs)
	if err != nil {
		return out, errors.Join(failed, fmt.Errorf("%w: mount this folder, or give access to pods in the API server", err))
	}
	r.podsByUID = named
	for pid, p := range out {
		r.addNames(&p)
		out[pid] = p
	}
	return out, failed
}

func (r *Resolver) read(pid int) (Process, error) {
	data, err := hostfs.ReadFile(filepath.Join(r.cfg.Proc, strconv.Itoa(pid), "cgroup"), maxCgroupFile)
	if err != nil {
		return Process{}, fmt.Errorf("read the cgroups of process %d: %w", pid, err)
	}
	o := procowner.Parse(string(data))
	return Process{PodUID: o.Pod, ContainerID: o.Container, Unit: o.Unit}, nil
}

// addNames adds the names of the pod and the container if they are known.
func (r *Resolver) addNames(p *Process) {
	if p.PodUID == "" || p.Pod != "" {
		return
	}
	if r.cfg.Pods != nil {
		if pod, ok := r.cfg.Pods.ByUID(p.PodUID); ok {
			p.Namespace, p.Pod, p.Container = pod.Namespace, pod.Name, pod.Containers[p.ContainerID]
			return
		}
	}
	pod := r.podsByUID[p.PodUID]
	p.Namespace, p.Pod = pod.Namespace, pod.Name
}

// User returns the user of a device that a process belongs to. If the container of the process is
// unknown, User returns the only container of the pod that uses the device, and false if several
// do. For a container with several replicas, it returns the first.
func (p Process) User(users []podresources.User) (podresources.User, bool) {
	var found podresources.User
	for _, u := range users {
		if p.Pod == "" || u.Namespace != p.Namespace || u.Pod != p.Pod || p.Container != "" && u.Container != p.Container {
			continue
		}
		if found.Pod != "" && found.Container != u.Container {
			return podresources.User{}, false
		}
		if found.Pod == "" {
			found = u
		}
	}
	return found, found.Pod != ""
}
