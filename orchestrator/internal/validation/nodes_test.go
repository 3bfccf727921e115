package validation_test

import (
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"outrigger.dev/orchestrator/internal/model"
	"outrigger.dev/orchestrator/internal/validation"
)

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
