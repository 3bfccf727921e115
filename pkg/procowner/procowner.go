// Package procowner tells which pod, container or unit of systemd a process belongs to, by its
// cgroups, and the names of pods, by the folders of their logs. Neither needs the API server or
// the container engine.
package procowner

import (
	"fmt"
	"os"
	"regexp"
	"strings"

	"outrigger.dev/pkg/text"
)

var (
	// podCgroup is the cgroup of a pod: "pod<uid>" by the cgroup driver cgroupfs, and
	// "kubepods-burstable-pod<uid>.slice" by systemd, with _ for - in the uid. The uid of a
	// static pod is a hash.
	podCgroup = regexp.MustCompile(`^(?:[A-Za-z0-9._-]*-)?pod([0-9a-f]{32}|[0-9a-f]{8}(?:[_-][0-9a-f]{4}){3}[_-][0-9a-f]{12})(?:\.slice)?$`)
	// containerCgroup is the cgroup of a container: its id, with a prefix by systemd such as
	// cri-containerd-, crio-, docker- or libpod-.
	containerCgroup = regexp.MustCompile(`^(?:([a-z-]+)-)?([0-9a-f]{64})(?:\.scope)?$`)
)

// Owner is what a process belongs to. It is zero for a process of none of these.
type Owner struct {
	// Pod is the UID of the pod; that of a static pod is a hash, by which the Pod object has
	// the annotation kubernetes.io/config.mirror.
	Pod string
	// Container is the id of the container, of 64 hexadecimal digits. It may be known without
	// the pod, and the other way round.
	Container string
	// Unit is the unit of systemd, a service or the scope of a session, of a process that is
	// in no pod and in no container.
	Unit string
}

// Parse returns the owner of a process by its /proc/PID/cgroup, for cgroups of version 1 and
// 2. A container can make cgroups with any names below its own, so that the first that matches
// counts.
func Parse(cgroups string) Owner {
	var o Owner
	for line := range strings.Lines(cgroups) {
		// hierarchy-ID:controllers:path. With the cgroup driver cgroupfs, containerd may write
		// "SLICE:cri-containerd:ID" for the last part of a path.
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) != 3 {
			continue
		}
		of := ownerOf(strings.Split(strings.ReplaceAll(fields[2], ":", "/"), "/"))
		if o.Pod == "" && of.Pod != "" {
			// The container of another hierarchy may be one around the node.
			o.Pod, o.Container = of.Pod, of.Container
		}
		if o.Container == "" {
			o.Container = of.Container
		}
		if o.Unit == "" {
			o.Unit = of.Unit
		}
	}
	if o.Pod != "" || o.Container != "" {
		o.Unit = ""
	}
	return o
}

// ownerOf is Parse for one path. Within a pod the container is one of the pod: the node
// itself may be a container.
func ownerOf(parts []string) Owner {
	var o Owner
	for _, part := range parts {
		if m := podCgroup.FindStringSubmatch(part); m != nil && o.Pod == "" {
			o.Pod, o.Container = strings.ReplaceAll(m[1], "_", "-"), ""
			continue
		}
		if m := containerCgroup.FindStringSubmatch(part); m != nil && o.Container == "" && !strings.HasSuffix(m[1], "conmon") {
			o.Container = m[2]
			continue
		}
		if strings.HasSuffix(part, ".service") || strings.HasSuffix(part, ".scope") {
			// systemd puts "_" before a name that could be one of a file of cgroups.
			o.Unit = text.Printable(strings.TrimPrefix(part, "_"))
		}
	}
	return o
}

// Pod is the name of a pod.
type Pod struct{ Namespace, Name string }

// Pods returns the pods of a node by their UIDs. logs is the kubelet's folder with the logs of
// pods, /var/log/pods, in which each pod has the folder "<namespace>_<name>_<uid>" from before
// its first container until it is removed.
func Pods(logs string) (map[string]Pod, error) {
	entries, err := os.ReadDir(logs)
	if err != nil {
		return nil, fmt.Errorf("read the names of pods from the kubelet's folder with their logs: %w", err)
	}
	pods := make(map[string]Pod, len(entries))
	for _, entry := range entries {
		// Neither a namespace nor a name has this character.
		if parts := strings.Split(entry.Name(), "_"); len(parts) == 3 && parts[2] != "" {
			pods[parts[2]] = Pod{Namespace: parts[0], Name: parts[1]}
		}
	}
	return pods, nil
}
