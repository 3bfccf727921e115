// Package procowner finds the pod, container or systemd unit of a process, from its cgroups, and
// the names of pods, from the folders of their logs. It does not need the API server or the
// container engine.
package procowner

import (
	"fmt"
	"os"
	"regexp"
	"strings"

	"outrigger.dev/pkg/text"
)

var (
	// podCgroup matches the cgroup of a pod: "pod<uid>" with the cgroup driver cgroupfs, and
	// "kubepods-burstable-pod<uid>.slice" with systemd, which replaces - in the UID with _. The UID
	// of a static pod is a hash.
	podCgroup = regexp.MustCompile(`^(?:[A-Za-z0-9._-]*-)?pod([0-9a-f]{32}|[0-9a-f]{8}(?:[_-][0-9a-f]{4}){3}[_-][0-9a-f]{12})(?:\.slice)?$`)
	// containerCgroup matches the cgroup of a container: its ID. With systemd, it has a prefix such
	// as cri-containerd-, crio-, docker- or libpod-.
	containerCgroup = regexp.MustCompile(`^(?:([a-z-]+)-)?([0-9a-f]{64})(?:\.scope)?$`)
)

// Owner is the pod, container or unit of a process. It is zero for a process without one.
type Owner struct {
	// Pod is the UID of the pod. For a static pod it is a hash, which the annotation
	// kubernetes.io/config.mirror of the Pod object contains.
	Pod string
	// Container is the ID of the container, of 64 hexadecimal digits. The container may be known
	// without the pod, and the pod without the container.
	Container string
	// Unit is the systemd unit, a service or the scope of a session, of a process that is not in a
	// pod or container.
	Unit string
}

// Parse returns the owner of a process from the content of its /proc/PID/cgroup, for cgroups of
// version 1 and 2. The first match counts, because a container can make cgroups with any names
// below its cgroup.
func Parse(cgroups string) Owner {
	var o Owner
	for line := range strings.Lines(cgroups) {
		// The form is hierarchy-ID:controllers:path. With the cgroup driver cgroupfs, containerd
		// may write "SLICE:cri-containerd:ID" for the last part of a path.
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) != 3 {
			continue
		}
		of := ownerOf(strings.Split(strings.ReplaceAll(fields[2], ":", "/"), "/"))
		if o.Pod == "" && of.Pod != "" {
			// The container of another hierarchy may be a container that contains the node.
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

// ownerOf is Parse for one path. It ignores a container above the pod, because the node itself may
// be a container.
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
			// systemd puts "_" before a name that could be the name of a cgroup file.
			o.Unit = text.Printable(strings.TrimPrefix(part, "_"))
		}
	}
	return o
}

// Pod is the name of a pod.
type Pod struct{ Namespace, Name string }

// Pods returns the pods of a node by UID. logs is the kubelet's folder with the logs of pods,
// /var/log/pods. In it, each pod has the folder "<namespace>_<name>_<uid>", from the time before
// its first container until the pod is removed.
func Pods(logs string) (map[string]Pod, error) {
	entries, err := os.ReadDir(logs)
	if err != nil {
		return nil, fmt.Errorf("read the names of pods from the kubelet's folder with their logs: %w", err)
	}
	pods := make(map[string]Pod, len(entries))
	for _, entry := range entries {
		// Neither a namespace nor a name can contain this character.
		if parts := strings.Split(entry.Name(), "_"); len(parts) == 3 && parts[2] != "" {
			pods[parts[2]] = Pod{Namespace: parts[0], Name: parts[1]}
		}
	}
	return pods, nil
}
