package validation

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Values of Check.Nodes with a special meaning.
const (
	// allNodes includes nodes that are added later.
	allNodes = "all"
	// oneNode runs one pod, which has the name of the check.
	oneNode = "1"
)

// share returns how many of n nodes run a check. nodes is a number, a percentage or allNodes: the
// schema of the chart validator accepts no other values.
func share(nodes string, n int) int {
	if nodes == allNodes {
		return n
	}
	of := intstr.Parse(nodes)
	count, err := intstr.GetScaledValueFromIntOrPercent(&of, n, true)
	if err != nil {
		count = 1
	}
	return min(count, n)
}

// resource returns the extended resource that the pods request, or "".
func resource(spec corev1.PodSpec) string {
	var found []string
	for _, container := range spec.Containers {
		for name := range container.Resources.Limits {
			if strings.Contains(string(name), "/") {
				found = append(found, string(name))
			}
		}
	}
	slices.Sort(found)
	if len(found) == 0 {
		return ""
	}
	return found[0]
}
