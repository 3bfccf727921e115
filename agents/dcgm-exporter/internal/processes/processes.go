// Package processes tells which pod and container a process that uses a GPU belongs to.
//
// A process leads to the UID of its pod and the id of its container, by /proc/PID/cgroup. The
// UID leads to the name of the pod by the API server, if the exporter has access to it, or else
// by the kubelet's folder with the logs of pods. The PodResources API has no UIDs, and the
// kubelet's checkpoints are its own. The id of a container leads to its name by the API server
// only; User does without where it can.
//
// NVML reports processes by their ids in the PID namespace of the exporter, so that its pod has
// to share that of the host (hostPID).
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

// most is the size of the largest /proc/PID/cgroup that is read, in bytes.
const maxCgroupFile = 64 << 10

// Process is where a process runs. Each field is empty if it is not known, and all are for a
// process that is in no pod, container or unit.
type Process struct {
	// PodUID is the UID that the kubelet gives the pod. That of the Pod object of a static pod
	// is another one.
	PodUID         string
	Namespace, Pod string
	// Container is the name of the container in its pod, and ContainerID its id.
	Container, ContainerID string
	// Unit is the unit of systemd of a process in no container.
	Unit string
}

// Pods finds pods by their UIDs, as podinfo.Pods does.
type Pods interface {
	ByUID(uid string) (podinfo.Pod, bool)
}

var _ Pods = (*podinfo.Pods)(nil)

// Config says where processes and pods are. Its Pods may be nil.
type Config struct {
	// Proc is the folder of the host's procfs. If empty, it is /proc.
	Proc string
	// Logs is the kubelet's folder with the logs of pods. If empty, it is /var/log/pods.
	Logs string
	// Pods has the pods that the API server knows, nil without access to it.
	Pods Pods
}

// Resolver resolves processes. One goroutine uses it.
type Resolver struct {
	cfg Config
	// named are the pods by the folder of logs, as last read.
	podsByUID map[string]procowner.Pod
}

// New returns a Resolver.
func New(cfg Config) *Resolver {
	cfg.Proc, cfg.Logs = cmp.Or(cfg.Proc, "/proc"), cmp.Or(cfg.Logs, "/var/log/pods")
	return &Resolver{cfg: cfg}
}

// Resolve returns where each process runs. It omits processes that have ended. With an error it
// still returns what is known: the error says why a process or the names of pods could not be
// read. It reads one file for each process, and the folder of logs if that has names that are
// not known yet.
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
			failed = err // one is enough to know why
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

// name adds the names of the pod and the container, as far as they are known.
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

// User returns the user of a device to which a process of that device belongs. If the container
// of the process is not known, it is the only container of the pod that uses the device; there
// is none if several do. A container with several replicas is the user with the lowest.
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
