package archive

import (
	"regexp"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// describedNodes reads the output of "kubectl describe nodes". A line at the left margin begins a section, and the lines below it
// are indented. Sections that Facts do not need are skipped.
func describedNodes(file string) []*corev1.Node {
	var nodes []*corev1.Node
	section := ""
	for line := range strings.Lines(file) {
		line = strings.TrimRight(line, "\n\r ")
		if line == "" {
			continue
		}
		rest := strings.TrimSpace(line)
		if line[0] != ' ' {
			section, rest, _ = strings.Cut(line, ":")
			rest = strings.TrimSpace(rest)
		}
		if section == "Name" && line[0] != ' ' {
			n := &corev1.Node{}
			n.Name, n.Labels, n.Annotations = rest, map[string]string{}, map[string]string{}
			n.Status.Capacity, n.Status.Allocatable = corev1.ResourceList{}, corev1.ResourceList{}
			nodes = append(nodes, n)
			continue
		}
		if len(nodes) > 0 && rest != "" && rest != "<none>" {
			describe(nodes[len(nodes)-1], section, rest)
		}
	}
	return nodes
}

// describe sets the field of a node that a line of a section has.
func describe(n *corev1.Node, section, line string) {
	key, value, _ := strings.Cut(line, ":")
	value = strings.TrimSpace(value)
	switch section {
	case "Labels":
		label, value, _ := strings.Cut(line, "=")
		n.Labels[label] = value
	case "Annotations":
		n.Annotations[key] = value
	case "CreationTimestamp":
		n.CreationTimestamp = timeOf(line)
	case "Taints":
		if t, ok := taint(line); ok {
			n.Spec.Taints = append(n.Spec.Taints, t)
		}
	case "Unschedulable":
		n.Spec.Unschedulable = line == "true"
	case "Conditions":
		if c, ok := condition(line); ok {
			n.Status.Conditions = append(n.Status.Conditions, c)
		}
	case "Capacity", "Allocatable":
		quantity, err := resource.ParseQuantity(value)
		if err != nil {
			return
		}
		if section == "Capacity" {
			n.Status.Capacity[corev1.ResourceName(key)] = quantity
		} else {
			n.Status.Allocatable[corev1.ResourceName(key)] = quantity
		}
	case "System Info":
		systemInfo(&n.Status.NodeInfo, key, value)
	}
}

func systemInfo(info *corev1.NodeSystemInfo, key, value string) {
	switch key {
	case "Boot ID":
		info.BootID = value
	case "Kernel Version":
		info.KernelVersion = value
	case "OS Image":
		info.OSImage = value
	case "Operating System":
		info.OperatingSystem = value
	case "Architecture":
		info.Architecture = value
	case "Container Runtime Version":
		info.ContainerRuntimeVersion = value
	case "Kubelet Version":
		info.KubeletVersion = value
	}
}

// taint reads KEY=VALUE:EFFECT or KEY:EFFECT.
func taint(line string) (corev1.Taint, bool) {
	what, effect, ok := strings.Cut(line, ":")
	key, value, _ := strings.Cut(what, "=")
	return corev1.Taint{Key: key, Value: value, Effect: corev1.TaintEffect(effect)}, ok
}

// columns separates the columns of the table of conditions.
var columns = regexp.MustCompile(` {2,}`)

// condition reads a row of the table of conditions: type, status, last heartbeat, last transition, reason and message.
func condition(line string) (corev1.NodeCondition, bool) {
	f := columns.Split(line, 6)
	if len(f) < 5 || f[0] == "Type" || strings.HasPrefix(f[0], "--") {
		return corev1.NodeCondition{}, false
	}
	c := corev1.NodeCondition{
		Type: corev1.NodeConditionType(f[0]), Status: corev1.ConditionStatus(f[1]),
		LastHeartbeatTime: timeOf(f[2]), LastTransitionTime: timeOf(f[3]), Reason: f[4],
	}
	if len(f) == 6 {
		c.Message = f[5]
	}
	return c, true
}

// timeOf reads a time of kubectl describe. It returns zero for another text.
func timeOf(s string) metav1.Time {
	t, err := time.Parse(time.RFC1123Z, s)
	if err != nil {
		return metav1.Time{}
	}
	return metav1.NewTime(t.UTC())
}
