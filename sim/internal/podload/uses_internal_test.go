package podload

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"outrigger.dev/pkg/podresources"
	"outrigger.dev/pkg/scenario"
	"outrigger.dev/sim/internal/load"
)

// aPod returns a pod whose containers a and b run, and whose container c waits.
func aPod(name, phase string, set map[string]string) pod {
	var p pod
	p.Metadata.Namespace, p.Metadata.Name, p.Metadata.UID, p.Metadata.Annotations = "ml", name, "uid-"+name, set
	p.Status.Phase = phase
	for _, c := range []string{"a", "b", "c"} {
		status := container{Name: c, ID: "containerd://" + name + c}
		if c != "c" {
			status.State.Running = &struct{}{}
		}
		p.Status.Containers = append(p.Status.Containers, status)
	}
	return p
}

func user(pod, container, replica string) podresources.User {
	return podresources.User{Namespace: "ml", Pod: pod, Container: container, Resource: "nvidia.com/gpu", Replica: replica}
}

func TestUses(t *testing.T) {
	t.Parallel()
	half := scenario.Range{Low: 50, High: 50}
	third := map[string]string{Prefix + utilization: "30", Prefix + memory: "1Gi"}
	of := func(name, device string, r scenario.Range, bytes uint64, pids ...int) load.Load {
		return load.Load{Owner: "ml/" + name, Seed: "uid-" + name, Device: device, PIDs: pids, Use: load.Use{Utilization: r, Memory: bytes}}
	}
	for name, tc := range map[string]struct {
		pods     []pod
		users    podresources.Map
		standard *scenario.Range
		want     []load.Load
	}{
		"a pod with two containers and replicas on one GPU, and another GPU": {
			[]pod{aPod("p", "Running", third)},
			podresources.Map{"GPU-1": {user("p", "b", "0"), user("p", "a", "1"), user("p", "a", "2")}, "GPU-2": {user("p", "b", "")}},
			nil,
			[]load.Load{of("p", "GPU-1", scenario.Range{Low: 30, High: 30}, 1<<30, 1, 2), of("p", "GPU-2", scenario.Range{Low: 30, High: 30}, 1<<30, 2)},
		},
		"two pods on one GPU": {
			[]pod{aPod("p", "Running", third), aPod("q", "Running", third)},
			podresources.Map{"GPU-1": {user("q", "a", "0"), user("p", "a", "1")}},
			nil,
			[]load.Load{of("p", "GPU-1", scenario.Range{Low: 30, High: 30}, 1<<30, 1), of("q", "GPU-1", scenario.Range{Low: 30, High: 30}, 1<<30)},
		},
		"the default is for pods without the annotation": {
			[]pod{aPod("p", "Running", map[string]string{Prefix + memory: "1Gi"}), aPod("q", "Running", third)},
			podresources.Map{"GPU-1": {user("p", "a", "")}, "GPU-2": {user("q", "a", "")}},
			&half,
			[]load.Load{of("p", "GPU-1", half, 1<<30, 1), of("q", "GPU-2", scenario.Range{Low: 30, High: 30}, 1<<30)},
		},
		"without annotations and without a default": {[]pod{aPod("p", "Running", nil)}, podresources.Map{"GPU-1": {user("p", "a", "")}}, nil, nil},
		"a bad annotation alone":                    {[]pod{aPod("p", "Running", map[string]string{Prefix + "x": "1"})}, podresources.Map{"GPU-1": {user("p", "a", "")}}, nil, nil},
		"a container that waits":                    {[]pod{aPod("p", "Running", third)}, podresources.Map{"GPU-1": {user("p", "c", "")}}, nil, nil},
		"a pod that has ended":                      {[]pod{aPod("p", "Failed", third)}, podresources.Map{"GPU-1": {user("p", "a", "")}}, nil, nil},
		"a pod that is gone":                        {nil, podresources.Map{"GPU-1": {user("p", "a", "")}}, &half, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := uses(tc.pods, tc.users, tc.standard, map[string]int{"pa": 1, "pb": 2})
			if d := cmp.Diff(tc.want, got); d != "" {
				t.Errorf("loads (-want +got):\n%s", d)
			}
		})
	}
}
