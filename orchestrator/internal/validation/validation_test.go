package validation_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"outrigger.dev/orchestrator/internal/model"
	"outrigger.dev/orchestrator/internal/validation"
)

const unschedulable = "0/3 nodes are available: 1 Insufficient nvidia.com/gpu, 2 node(s) didn't match Pod's node affinity/selector."

func TestOneNodeHasOnePodOfTheChecksName(t *testing.T) {
	k := newCluster(check(t, driver, "1"), 3)
	k.next()
	if diff := cmp.Diff([]string{driver}, k.created); diff != "" {
		t.Fatalf("created (-want +got):\n%s", diff)
	}
	k.next()
	k.wants(t, validation.Running, "pod "+driver+" is Pending")
	k.rests(t)
	k.ends("Succeeded", "Completed", "")
	k.next()
	k.wants(t, validation.Passed)
	if k.status.Passed != 1 || k.status.Revision != "run1" || k.status.Time == nil || k.again != 0 {
		t.Errorf("status %+v, again %s", k.status, k.again)
	}
	k.rests(t)
	if len(k.Pods) != 1 {
		t.Error("the pod is gone, and its log with it")
	}
}

func TestTheDriverPodIsBoundToItsNode(t *testing.T) {
	k := newCluster(check(t, driver, "1"), 3)
	k.node("a0").GPUReady, k.node("a2").GPUReady = "False", "False"
	_, create, _, _ := validation.Next(k.check, k.State, k.status)
	if node, _, _ := unstructured.NestedString(create[0].Object, "spec", "nodeName"); node != "a1" {
		t.Errorf("it is bound to %q, want the healthy node a1", node)
	}
	if create[0].GetKind() != "Pod" || create[0].GetAPIVersion() != "v1" || create[0].GetNamespace() != ns {
		t.Errorf("it creates %v", create[0].Object)
	}
	if _, changed, _ := unstructured.NestedString(k.check.Template.Object, "template", "spec", "nodeName"); changed {
		t.Error("the template has changed")
	}
}

func TestThePluginPodGoesThroughTheScheduler(t *testing.T) {
	for nodes, want := range map[string]int{"1": 3, "all": 1} {
		t.Run(nodes, func(t *testing.T) {
			k := newCluster(check(t, plugin, nodes), 4)
			k.node("a3").Labels["nvidia.com/gpu.deploy.device-plugin"] = "false"
			_, create, _, _ := validation.Next(k.check, k.State, k.status)
			spec := create[0].Object["spec"].(map[string]any)
			if spec["nodeName"] != nil {
				t.Error("it is bound to a node, past the scheduler")
			}
			terms, _, err := unstructured.NestedSlice(spec, "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms")
			if err != nil || len(terms) != want {
				t.Errorf("%d nodes to choose from, want %d: %v", len(terms), want, err)
			}
		})
	}
}

func TestOnHowManyNodes(t *testing.T) {
	tests := map[string]struct {
		nodes      string
		have, want int
	}{
		"one":                        {"1", 20, 1},
		"two":                        {"2", 20, 2},
		"more than there are":        {"9", 4, 4},
		"a share":                    {"10%", 20, 2},
		"a share that is rounded up": {"10%", 11, 2},
		"a share of one node":        {"10%", 1, 1},
		"all":                        {"all", 20, 20},
		"all, some at a time":        {"all", 100, 32},
		"none is there":              {"all", 0, 0},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			k := newCluster(check(t, driver, tc.nodes), tc.have)
			k.next()
			if len(k.created) != tc.want || len(k.created) != len(slices.Compact(slices.Sorted(slices.Values(k.created)))) {
				t.Errorf("it creates %v, want %d pods with different names", k.created, tc.want)
			}
			k.wants(t, validation.Running)
		})
	}
}

func TestOnlyReadyNodes(t *testing.T) {
	tests := map[string]func(*cluster){
		"cordoned":          func(k *cluster) { k.node("a0").Schedulable = false },
		"no label of a GPU": func(k *cluster) { k.node("a0").Labels = nil },
		"a veto":            func(k *cluster) { k.node("a0").Labels["nvidia.com/gpu.deploy.container-toolkit"] = "false" },
		"the stage's pod is not up": func(k *cluster) {
			k.Pods = append(k.Pods, &model.Pod{Owner: "toolkit", Node: "a0", Phase: "Pending"})
		},
		"the stage's pod crashes again and again": func(k *cluster) {
			k.Pods = append(k.Pods, &model.Pod{Owner: "toolkit", Node: "a0", Phase: "Running", Ready: true, Loops: k.Now.Add(time.Minute)})
		},
	}
	for name, change := range tests {
		t.Run(name, func(t *testing.T) {
			k := newCluster(check(t, driver, "all"), 1)
			change(k)
			k.next()
			k.wants(t, validation.Running, "waits for a node that is ready and has a GPU")
			if len(k.created) > 0 {
				t.Errorf("it creates %v", k.created)
			}
		})
	}
	t.Run("the stage's pod became ready only now", func(t *testing.T) {
		k := newCluster(check(t, driver, "all"), 1)
		k.Pods = append(k.Pods, &model.Pod{Owner: "toolkit", Node: "a0", Phase: "Running", Ready: true, Since: k.Now})
		k.next()
		if len(k.created) != 1 {
			t.Errorf("it creates %v", k.created)
		}
	})
}

func TestNoFreeGPUIsSkippedAndNotFailed(t *testing.T) {
	k := newCluster(check(t, plugin, "1"), 3)
	k.next()
	p := k.pod(t, plugin)
	p.Reason, p.Message = "Unschedulable", unschedulable
	k.Now = k.Now.Add(5 * time.Second)
	k.next()
	k.wants(t, validation.Running, "Insufficient nvidia.com/gpu")
	if k.again != 25*time.Second {
		t.Errorf("it looks again after %s", k.again)
	}
	k.Now = k.Now.Add(25 * time.Second)
	k.next()
	k.wants(t, validation.Skipped, "no free nvidia.com/gpu", "pods use all of them")
	if !slices.Equal(k.removed, []string{plugin}) || k.status.Skipped != 1 || k.status.Failed != 0 {
		t.Errorf("removes %v, status %+v", k.removed, k.status)
	}
	k.rests(t)
	if k.again != 10*time.Minute {
		t.Errorf("it is repeated after %s", k.again)
	}
	k.Now = k.Now.Add(10 * time.Minute)
	k.next()
	if !slices.Equal(k.created, []string{plugin}) {
		t.Errorf("it is not repeated: %+v", k.status)
	}
}

func TestAPluginWithoutAGPUFails(t *testing.T) {
	k := newCluster(check(t, plugin, "1"), 1)
	k.node("a0").Allocatable = nil
	k.next()
	p := k.pod(t, plugin)
	p.Reason, p.Message = "Unschedulable", unschedulable
	k.Now = k.Now.Add(k.check.Timeout)
	k.next()
	k.wants(t, validation.Failed, "not ended after 5m0s", "no ready node offers nvidia.com/gpu", "log of the device plugin")
}

func TestAFailureNamesTheCauseAndTheFix(t *testing.T) {
	const line = "vectoradd: cuInit: CUDA_ERROR_NO_DEVICE (100): no device: load the driver"
	tests := map[string]struct {
		phase, reason, message string
		wait                   time.Duration
		state                  string
		want                   []string
	}{
		"the program fails":      {"Failed", "Error", "[Vector addition of 50000 elements]\n" + line + "\n", 0, validation.Failed, []string{"node a0: " + line}},
		"a long message":         {"Failed", "Error", fmt.Sprintf("%01000d", 0), 0, validation.Failed, []string{"node a0: 000"}},
		"no message":             {"Failed", "Error", "", 0, validation.Failed, []string{"node a0: Error", "kubectl -n gpu-operator-resources describe pod " + driver}},
		"no image in time":       {"Pending", "ImagePullBackOff", `Back-off pulling image "x"`, 5 * time.Minute, validation.Failed, []string{"node a0", "5m0s", "ImagePullBackOff", "imagePullSecrets"}},
		"no image yet":           {"Pending", "ImagePullBackOff", `Back-off pulling image "x"`, time.Minute, validation.Running, []string{"node a0: ImagePullBackOff"}},
		"the kubelet's deadline": {"Failed", "DeadlineExceeded", "Pod was active on the node longer than the specified deadline", 0, validation.Failed, []string{"DeadlineExceeded", "describe pod"}},
		"no such device":         {"Pending", "CreateContainerError", "unresolvable CDI devices", 6 * time.Minute, validation.Failed, []string{"log of the container toolkit"}},
		"evicted":                {"Failed", "Evicted", "The node was low on resource: memory.", 0, validation.Skipped, []string{"Evicted", "low on resource"}},
		"no room on the node":    {"Failed", "OutOfcpu", "Node didn't have enough resource: cpu", 0, validation.Skipped, []string{"OutOfcpu"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			k := newCluster(check(t, driver, "1"), 1)
			k.next()
			p := k.pod(t, driver)
			p.Phase, p.Reason, p.Message = tc.phase, tc.reason, tc.message
			k.Now = k.Now.Add(tc.wait)
			k.next()
			k.wants(t, tc.state, tc.want...)
			if len(k.status.Message) > 600 || len(k.Pods) != 1 {
				t.Errorf("%d bytes, %d pods", len(k.status.Message), len(k.Pods))
			}
		})
	}
}

func TestAFailedRunIsRepeated(t *testing.T) {
	k := newCluster(check(t, driver, "1"), 1)
	k.next()
	k.ends("Failed", "Error", "no driver")
	k.next()
	k.wants(t, validation.Failed)
	k.rests(t)
	k.Now = k.Now.Add(k.again)
	k.next()
	k.wants(t, validation.Running)
	if !slices.Equal(k.removed, []string{driver}) {
		t.Errorf("it removes %v", k.removed)
	}
	k.next()
	k.ends("Succeeded", "Completed", "")
	k.next()
	k.wants(t, validation.Passed)
	k.rests(t)
}

// A node on which CUDA does not work must not stop the roll-out of all others for ever.
func TestARepeatedRunMeetsAnotherNode(t *testing.T) {
	k := newCluster(check(t, driver, "1"), 8)
	met := map[string]bool{}
	for range 6 {
		k.next()
		met[k.pod(t, driver).Node] = true
		k.ends("Failed", "Error", "no driver")
		k.next()
		k.wants(t, validation.Failed)
		k.Now = k.Now.Add(k.again)
		// Removes the pod that failed; the next one starts once it is gone.
		k.next()
	}
	if len(met) < 2 {
		t.Errorf("six runs met only %v", met)
	}
}

func TestAChangeRepeatsTheCheck(t *testing.T) {
	for _, nodes := range []string{"1", "50%", "all"} {
		t.Run(nodes, func(t *testing.T) {
			k := newCluster(check(t, driver, nodes), 4)
			k.next()
			first := k.created
			k.ends("Succeeded", "Completed", "")
			k.next()
			k.wants(t, validation.Passed)
			k.check.Revision = "run2"
			k.next()
			k.wants(t, validation.Running)
			slices.Sort(first)
			if slices.Sort(k.removed); !slices.Equal(first, k.removed) {
				t.Errorf("it removes %v, want %v", k.removed, first)
			}
			k.next()
			k.ends("Succeeded", "Completed", "")
			k.next()
			k.wants(t, validation.Passed)
			if k.status.Revision != "run2" || k.status.Passed != len(first) {
				t.Errorf("%+v", k.status)
			}
		})
	}
}

func TestAPodOfAnEarlierRunEndsFirst(t *testing.T) {
	k := newCluster(check(t, driver, "1"), 1)
	k.next()
	k.pod(t, driver).Deleting = true
	k.check.Revision = "run2"
	k.next()
	if len(k.created)+len(k.removed) > 0 {
		t.Errorf("while it ends, it creates %v and removes %v", k.created, k.removed)
	}
	k.wants(t, validation.Running)
}

func TestANodeThatGoesAway(t *testing.T) {
	tests := map[string]func(*cluster, string){
		"deleted": func(k *cluster, name string) {
			k.Nodes = slices.DeleteFunc(k.Nodes, func(n *model.Node) bool { return n.Name == name })
		},
		"down": func(k *cluster, name string) {
			k.node(name).Schedulable = false
			k.Now = k.Now.Add(k.check.Timeout)
		},
	}
	for name, goes := range tests {
		t.Run(name, func(t *testing.T) {
			k := newCluster(check(t, driver, "1"), 2)
			k.next()
			node := k.pod(t, driver).Node
			goes(k, node)
			k.next()
			k.wants(t, validation.Running)
			k.next()
			if p := k.pod(t, driver); p.Node == node || p.Node == "" {
				t.Errorf("the pod is on %q again", p.Node)
			}
			k.ends("Succeeded", "Completed", "")
			k.next()
			k.wants(t, validation.Passed)
		})
	}
}

func TestOneBadNodeOfMany(t *testing.T) {
	k := newCluster(check(t, driver, "all"), 3)
	k.next()
	p := k.pod(t, "")
	bad := p.Name
	p.Phase, p.Reason, p.Message = "Failed", "Error", "broken GPU"
	k.ends("Succeeded", "Completed", "")
	k.next()
	k.wants(t, validation.Passed, "node "+p.Node+": broken GPU")
	if k.status.Passed != 2 || k.status.Failed != 1 {
		t.Errorf("%+v", k.status)
	}
	k.Now = k.Now.Add(k.again)
	k.next()
	if !slices.Equal(k.removed, []string{bad}) {
		t.Errorf("it removes %v, want the failed %s", k.removed, bad)
	}
	k.next()
	k.ends("Succeeded", "Completed", "")
	k.next()
	k.wants(t, validation.Passed)
	if k.status.Passed != 3 || k.status.Message != "" {
		t.Errorf("%+v", k.status)
	}
}

func TestAllNodesIncludesNewAndRebootedOnes(t *testing.T) {
	k := newCluster(check(t, driver, "all"), 2)
	k.next()
	k.ends("Succeeded", "Completed", "")
	k.next()
	k.rests(t)
	k.Now = k.Now.Add(time.Hour)
	k.addNode("new")
	k.next()
	k.wants(t, validation.Passed)
	if len(k.created) != 1 || k.Pods[2].Node != "new" {
		t.Fatalf("it creates %v", k.created)
	}
	k.ends("Succeeded", "Completed", "")
	k.next()
	k.rests(t)
	n := k.node("a0")
	n.GPUReady, n.Reason, n.Since = "False", "CUDAStale", k.Now.Add(time.Minute)
	k.next()
	if len(k.removed) != 1 {
		t.Fatalf("after a reboot, it removes %v", k.removed)
	}
	k.Now = k.Now.Add(2 * time.Minute)
	k.next()
	if len(k.created) != 1 {
		t.Fatalf("after a reboot, it creates %v", k.created)
	}
	k.ends("Succeeded", "Completed", "")
	k.next()
	// The node still says so for a while.
	k.rests(t)
}

func TestNodesThatTheValuesSelect(t *testing.T) {
	term := func(expression map[string]any) map[string]any {
		return map[string]any{"matchExpressions": []any{expression}}
	}
	for name, tc := range map[string]struct {
		selector map[string]any
		terms    []any
		want     bool
		message  string
	}{
		"a label":                    {selector: map[string]any{"zone": "a"}, want: true},
		"another value of the label": {selector: map[string]any{"zone": "b"}, message: "waits for a node that is ready and has a GPU"},
		"an expression":              {terms: []any{term(map[string]any{"key": "zone", "operator": "In", "values": []any{"a", "b"}})}, want: true},
		"one of two terms": {terms: []any{
			term(map[string]any{"key": "zone", "operator": "DoesNotExist"}), term(map[string]any{"key": "cores", "operator": "Gt", "values": []any{"8"}}),
		}, want: true},
		"a name": {terms: []any{
			map[string]any{"matchFields": []any{map[string]any{"key": "metadata.name", "operator": "In", "values": []any{"a0"}}}},
		}, want: true},
		"a term that requires nothing": {terms: []any{map[string]any{}}, message: "waits for a node that is ready and has a GPU"},
		"an operator that does not exist": {
			terms:   []any{term(map[string]any{"key": "zone", "operator": "Is", "values": []any{"a"}})},
			message: "affinity of the chart validator: ",
		},
		"values that are no list": {
			terms:   []any{term(map[string]any{"key": "zone", "operator": "In", "values": "a"})},
			message: "correct the values of the chart validator",
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := check(t, driver, "1")
			for path, value := range map[string]any{"nodeSelector": tc.selector, "affinity": map[string]any{}} {
				if err := unstructured.SetNestedField(c.Template.Object, value, "template", "spec", path); err != nil {
					t.Fatal(err)
				}
			}
			if tc.terms != nil {
				if err := unstructured.SetNestedSlice(c.Template.Object, tc.terms, "template", "spec", "affinity", "nodeAffinity",
					"requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms"); err != nil {
					t.Fatal(err)
				}
			}
			k := newCluster(c, 1)
			k.node("a0").Labels["zone"], k.node("a0").Labels["cores"] = "a", "64"
			k.next()
			if got := len(k.created) == 1; got != tc.want {
				t.Errorf("it creates %v", k.created)
			}
			k.wants(t, validation.Running, tc.message)
		})
	}
}

func TestNodesThatTheRequestNames(t *testing.T) {
	for _, name := range []string{driver, plugin} {
		k := newCluster(check(t, name, "all"), 5)
		k.check.Only = []string{"a1", "a3", "gone"}
		k.next()
		k.ends("Succeeded", "Completed", "")
		k.next()
		k.wants(t, validation.Passed)
		if k.status.Passed != 2 {
			t.Errorf("%s: it passed on %d nodes, want the 2 that exist", name, k.status.Passed)
		}
		// The end of the request repeats nothing, and keeps the result.
		k.check.Only, k.check.Nodes = nil, "1"
		k.rests(t)
	}
}
