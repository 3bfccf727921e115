package validation

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// share is how many nodes a check runs on.
type share struct {
	all     bool
	percent int
	count   int
}

func parseShare(text string) (share, error) {
	if text == "all" {
		return share{all: true}, nil
	}
	digits, percent := strings.CutSuffix(text, "%")
	n, err := strconv.Atoi(digits)
	if err != nil || n < 1 || percent && n > 100 {
		return share{}, fmt.Errorf("%q must be a number of nodes, a percentage such as 10%%, or all", text)
	}
	if percent {
		return share{percent: n}, nil
	}
	return share{count: n}, nil
}

// of returns the number of nodes, of which there are n.
func (s share) of(n int) int {
	switch {
	case s.all:
		return n
	case s.percent > 0:
		return (n*s.percent + 99) / 100
	default:
		return min(s.count, n)
	}
}

// one reports whether the check has one pod, which has the check's name.
func (s share) one() bool { return s.count == 1 }

// resource returns the device that the pods request, or "".
func resource(template *unstructured.Unstructured) string {
	containers, _, _ := unstructured.NestedSlice(template.Object, "template", "spec", "containers")
	var found []string
	for _, container := range containers {
		fields, _ := container.(map[string]any)
		limits, _, _ := unstructured.NestedMap(fields, "resources", "limits")
		for name := range limits {
			if strings.Contains(name, "/") {
				found = append(found, name)
			}
		}
	}
	slices.Sort(found)
	if len(found) == 0 {
		return ""
	}
	return found[0]
}
