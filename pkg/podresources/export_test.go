package podresources

import (
	"math"

	kubelet "k8s.io/kubelet/pkg/apis/podresources/v1"
)

// Derive returns the users of each device of an answer, and the devices that cannot be resolved.
func Derive(answer *kubelet.ListPodResourcesResponse, o Options) (Map, []Unknown) {
	all := func(yield func(*kubelet.PodResources, error) bool) {
		for _, p := range answer.GetPodResources() {
			if !yield(p, nil) {
				return
			}
		}
	}
	users, unknown, _ := derive(all, o, math.MaxInt)
	return users, unknown
}
