package holders

import (
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

// owner returns the pod, the container and the unit of a process by its /proc/PID/cgroup,
// for version 1 and 2. A container can make cgroups with any names below its own, so that
// the first that matches counts.
func owner(cgroups string) (pod, container, unit string) {
	for line := range strings.Lines(cgroups) {
		// hierarchy-ID:controllers:path. With the cgroup driver cgroupfs, containerd may write
		// "SLICE:cri-containerd:ID" for the last part of a path.
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) != 3 {
			continue
		}
		p, c, u := ownerOf(strings.Split(strings.ReplaceAll(fields[2], ":", "/"), "/"))
		if pod == "" && p != "" {
			// The container of another hierarchy may be one around the node.
			pod, container = p, c
		}
		if container == "" {
			container = c
		}
		if unit == "" {
			unit = u
		}
	}
	if pod != "" || container != "" {
		unit = ""
	}
	return pod, container, unit
}

// ownerOf is owner for one path. Within a pod the container is one of the pod: the node
// itself may be a container.
func ownerOf(parts []string) (pod, container, unit string) {
	for _, part := range parts {
		if m := podCgroup.FindStringSubmatch(part); m != nil && pod == "" {
			pod, container = strings.ReplaceAll(m[1], "_", "-"), ""
			continue
		}
		if m := containerCgroup.FindStringSubmatch(part); m != nil && container == "" && !strings.HasSuffix(m[1], "conmon") {
			container = m[2]
			continue
		}
		if strings.HasSuffix(part, ".service") || strings.HasSuffix(part, ".scope") {
			// systemd puts "_" before a name that could be one of a file of cgroups.
			unit = text.Printable(strings.TrimPrefix(part, "_"))
		}
	}
	return pod, container, unit
}

// namePods adds the names of pods, by the folders that the kubelet makes for their logs:
// "<namespace>_<name>_<uid>".
func namePods(logs string, holders []Holder) {
	pods := map[string]Pod{}
	for _, h := range holders {
		if h.Pod.UID != "" {
			pods[h.Pod.UID] = h.Pod
		}
	}
	if len(pods) == 0 {
		return
	}
	entries, err := os.ReadDir(logs)
	if err != nil {
		return
	}
	for _, entry := range entries {
		// Neither a namespace nor a name has this character.
		parts := strings.Split(entry.Name(), "_")
		if len(parts) != 3 {
			continue
		}
		if pod, ok := pods[parts[2]]; ok {
			pod.Namespace, pod.Name = parts[0], parts[1]
			pods[parts[2]] = pod
		}
	}
	for i := range holders {
		if pod, ok := pods[holders[i].Pod.UID]; ok {
			holders[i].Pod = pod
		}
	}
}
