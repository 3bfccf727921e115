//go:build e2e

package e2e_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"outrigger.dev/test/cluster/cluster"
	"outrigger.dev/test/e2e/stack"
)

// timeSlicing is a values file's config map in which each GPU is advertised twice.
const timeSlicing = `config.map.default=
version: v1
sharing:
  timeSlicing:
    failRequestsGreaterThanOne: true
    resources:
    - name: nvidia.com/gpu
      replicas: 2
`

func TestTimeSlicedPodsShareAGPU(t *testing.T) {
	pluginWith(t, timeSlicing)
	allocatable(t, 2*gpus, limit)
	// One pod more than there are GPUs: two of them are on one.
	holders := hold(t, stack.GPU, gpus+1)
	seen := map[string]int{}
	for _, nodes := range holders {
		if len(nodes) != 1 {
			t.Fatalf("a pod has GPU nodes %v, want one", nodes)
		}
		seen[nodes[0]]++
	}
	if len(seen) != gpus {
		t.Errorf("%d pods are on GPUs %v, want all %d GPUs in use", len(holders), seen, gpus)
	}
	result, err := shared.RunVectorAdd(t.Context(), "beside-others", limit)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(result.Log, "Test PASSED") {
		t.Errorf("the log lacks that the test passed:\n%s", result.Log)
	}
	// A pod that asks for two would not get more than with one.
	t.Cleanup(func() { kubectlCleanup(t, "delete", "pod", "greedy", "--ignore-not-found", "--wait") })
	if err := shared.Apply(t.Context(), fmt.Sprintf(holder, "greedy", cluster.BusyboxImage, stack.GPU, "2")); err != nil {
		t.Fatal(err)
	}
	kubectl(t, "wait", "pod/greedy", "--for=jsonpath={.status.phase}=Failed", "--timeout", limit.String())
	if reason := kubectl(t, "get", "pod", "greedy", "-o", "jsonpath={.status.message}"); !strings.Contains(reason, "maximum request size for shared resources is 1; found 2") {
		t.Errorf("a pod with two replicas was rejected: %q", reason)
	}
}

func TestSharesSpreadOverTheLeastSharedGPUs(t *testing.T) {
	const resource = "nvidia.com/sharedgpu"
	pluginWith(t, "resourceConfig=gpu:sharedgpu:4")
	advertised(t, resource, 4*gpus, limit)
	first := hold(t, resource, gpus)
	var nodes []string
	for _, n := range first {
		nodes = append(nodes, n...)
	}
	slices.Sort(nodes)
	if got := slices.Compact(slices.Clone(nodes)); len(got) != gpus || len(nodes) != gpus {
		t.Fatalf("%d pods with one share each are on %v, want each on a GPU of its own", gpus, nodes)
	}
	pair := hold(t, resource+"@2", 1)[0]
	if len(pair) != 2 {
		t.Errorf("a pod with two shares has GPUs %v, want two different ones", pair)
	}
}

// holder is a pod that has devices until the test ends.
const holder = `
apiVersion: v1
kind: Pod
metadata: {name: %[1]s, labels: {test: holder}}
spec:
  terminationGracePeriodSeconds: 0
  containers:
  - name: shell
    image: %[2]s
    imagePullPolicy: IfNotPresent
    command: [sleep, "3600"]
    resources: {limits: {%[3]s: %[4]s}}
---
`

// hold starts pods that each have one of a resource ("name"), or several
// ("name@2"), and returns the GPUs' device nodes that each sees.
func hold(t *testing.T, resource string, pods int) [][]string {
	t.Helper()
	resource, count, several := strings.Cut(resource, "@")
	if !several {
		count = "1"
	}
	kind := strings.NewReplacer("/", "-", ".", "-").Replace(resource) + "-" + count
	var manifest strings.Builder
	names := make([]string, pods)
	for i := range names {
		names[i] = fmt.Sprintf("holder-%s-%d", kind, i)
		fmt.Fprintf(&manifest, holder, names[i], cluster.BusyboxImage, resource, count)
	}
	t.Cleanup(func() {
		kubectlCleanup(t, append([]string{"delete", "pod", "--ignore-not-found", "--wait"}, names...)...)
	})
	if err := shared.Apply(t.Context(), manifest.String()); err != nil {
		t.Fatal(err)
	}
	wait := []string{"wait", "--for=condition=Ready", "--timeout", limit.String()}
	for _, name := range names {
		wait = append(wait, "pod/"+name)
	}
	kubectl(t, wait...)
	out := make([][]string, pods)
	var inspections sync.WaitGroup
	for i, name := range names {
		inspections.Go(func() {
			text, err := shared.Kubectl(t.Context(), "exec", name, "--", "sh", "-c", "ls -d /dev/nvidia[0-9]*")
			if err != nil {
				t.Errorf("inspect pod %s: %v", name, err)
			}
			out[i] = strings.Fields(text)
		})
	}
	inspections.Wait()
	return out
}
