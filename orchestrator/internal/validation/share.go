package validation

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// The values of Check.Nodes that are more than a number.
const (
	// allNodes includes nodes that come later.
	allNodes = "all"
	// oneNode has one pod, which has the check's name.
	oneNode = "1"
)

// share returns on how many of n nodes a check runs. nodes is a number, a percentage or
// allNodes: the schema of the chart validator accepts nothing else.
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

// resource returns the device that the pods request, or "".
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
