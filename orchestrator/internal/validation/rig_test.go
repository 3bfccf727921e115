package validation_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"outrigger.dev/orchestrator/internal/model"
	"outrigger.dev/orchestrator/internal/validation"
)

const (
	driver = "nvidia-driver-validation"
	plugin = "nvidia-device-plugin-validation"
	gpu    = "nvidia.com/gpu"
	ns     = "gpu-operator-resources"
)

// check returns the check that the chart validator renders, on some nodes.
func check(t testing.TB, name, nodes string) model.Check {
	t.Helper()
	rendered, err := os.ReadFile("../../../charts/testdata/validator/defaults.golden")
	if err != nil {
		t.Fatal(err)
	}
	for text := range strings.SplitSeq(string(rendered), "\n---\n") {
		template := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(text), &template.Object); err != nil {
			t.Fatal(err)
		}
		if template.GetName() != name {
			continue
		}
		after := map[string]string{driver: "toolkit", plugin: "plugin"}[name]
		return model.Check{Name: name, Template: template, DaemonSets: []string{after}, Nodes: nodes, Timeout: 5 * time.Minute, Revision: "run1"}
	}
	t.Fatalf("the chart has no %s", name)
	return model.Check{}
}

// cluster is a cluster in which pods start and end when the test says so.
type cluster struct {
	model.State
	check  model.Check
	status model.ValidationStatus
	// again is when the last call wants the next one.
	again time.Duration
	// created and removed are names, in order.
	created, removed []string
}

// newCluster has n ready nodes with a GPU, named a0, a1, ….
func newCluster(c model.Check, n int) *cluster {
	k := &cluster{check: c}
	k.Now = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	for i := range n {
		k.addNode(fmt.Sprintf("a%d", i))
	}
	return k
}

func (k *cluster) addNode(name string) {
	k.Nodes = append(k.Nodes, &model.Node{
		Name: name, Schedulable: true, GPUReady: "True", Since: k.Now,
		Labels: map[string]string{"nvidia.com/gpu.present": "true"}, Allocatable: map[string]int64{gpu: 1},
	})
}

func (k *cluster) node(name string) *model.Node {
	for i := range k.Nodes {
		if k.Nodes[i].Name == name {
			return k.Nodes[i]
		}
	}
	panic("no node " + name)
}

// next does what Next wants. A pod is removed at once.
func (k *cluster) next() {
	now, create, remove, again := validation.Next(k.check, k.State, k.status)
	k.status, k.again, k.created, k.removed = now, again, nil, nil
	for _, seen := range remove {
		k.removed = append(k.removed, seen.Name)
		k.forget(seen.Name)
	}
	for _, object := range create {
		k.created = append(k.created, object.GetName())
		node, _, _ := unstructured.NestedString(object.Object, "spec", "nodeName")
		k.Pods = append(k.Pods, &model.Pod{
			Namespace: object.GetNamespace(), Name: object.GetName(), Node: node, Phase: "Pending", Since: k.Now,
			Owner: object.GetLabels()[validation.LabelCheck], Revision: object.GetLabels()[validation.LabelRevision],
		})
	}
}

func (k *cluster) forget(name string) {
	for i := range k.Pods {
		if k.Pods[i].Name == name {
			k.Pods = append(k.Pods[:i:i], k.Pods[i+1:]...)
			return
		}
	}
}

// pod returns the pod of this name, or the first one.
func (k *cluster) pod(t *testing.T, name string) *model.Pod {
	t.Helper()
	for i := range k.Pods {
		if name == "" || k.Pods[i].Name == name {
			return k.Pods[i]
		}
	}
	t.Fatalf("no pod %q among %+v", name, k.Pods)
	return nil
}

// ends ends all pods that have not ended, as Succeeded or Failed.
func (k *cluster) ends(phase, reason, message string) {
	for i := range k.Pods {
		if p := k.Pods[i]; p.Phase == "Pending" || p.Phase == "Running" {
			if p.Node == "" {
				p.Node = k.Nodes[0].Name
			}
			p.Phase, p.Reason, p.Message = phase, reason, message
		}
	}
}

// wants checks the state and that the message has texts.
func (k *cluster) wants(t *testing.T, state string, texts ...string) {
	t.Helper()
	if k.status.State != state {
		t.Errorf("state %s, want %s: %+v", k.status.State, state, k.status)
	}
	for _, text := range texts {
		if !strings.Contains(k.status.Message, text) {
			t.Errorf("the message lacks %q: %s", text, k.status.Message)
		}
	}
}

// rests checks that nothing more is done.
func (k *cluster) rests(t *testing.T) {
	t.Helper()
	before := k.status
	k.next()
	if len(k.created)+len(k.removed) > 0 || k.status != before {
		t.Errorf("it does not rest: creates %v, removes %v, status %+v, before %+v", k.created, k.removed, k.status, before)
	}
}
