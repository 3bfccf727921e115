package migrate_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"outrigger.dev/orchestrator/internal/migrate"
	"outrigger.dev/orchestrator/internal/model"
	"outrigger.dev/pkg/pace"
)

// policyRef names NVIDIA's ClusterPolicy.
func policyRef(name string) model.Ref {
	return model.Ref{APIVersion: "nvidia.com/v1", Kind: "ClusterPolicy", Name: name}
}

// policy creates the kind ClusterPolicy of NVIDIA, and an object.
func (w *world) policy(spec map[string]any) {
	w.Helper()
	w.Create(object(map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": map[string]any{"name": "clusterpolicies.nvidia.com"},
		"spec": map[string]any{
			"group": "nvidia.com", "scope": "Cluster", "names": map[string]any{"kind": "ClusterPolicy", "plural": "clusterpolicies"},
			"versions": []any{map[string]any{"name": "v1", "served": true, "storage": true, "schema": map[string]any{
				"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true},
			}}},
		},
	}))
	w.Create(object(map[string]any{"apiVersion": "nvidia.com/v1", "kind": "ClusterPolicy", "metadata": map[string]any{"name": "policy"}, "spec": spec}))
}

// operate does what NVIDIA's operator does until the test ends: it has the DaemonSets of enabled components, whose names are
// listed by key, and no others.
func (w *world) operate(sets map[string]string) {
	ctx, cancel := context.WithCancel(w.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for pace.Pause(ctx, 50*time.Millisecond) {
			p, err := w.Client.Get(ctx, policyRef("policy"))
			if err != nil || p == nil {
				continue
			}
			for key, name := range sets {
				on, is, _ := unstructured.NestedBool(p.Object, "spec", key, "enabled")
				if on || !is {
					_ = w.Client.Create(ctx, theirs(name, "nvidia.com/gpu.deploy."+theirSets()[name])) // or it exists
				} else {
					_ = w.Client.Dynamic.Resource(appsv1.SchemeGroupVersion.WithResource("daemonsets")).Namespace(theirNamespace).Delete(ctx, name, metav1.DeleteOptions{}) // or it is gone
				}
			}
		}
	}()
	w.Cleanup(func() { cancel(); <-ended })
}

// TestByClusterPolicy disables a component with two sections, and goes back. The ClusterPolicy is then as before.
func TestByClusterPolicy(t *testing.T) {
	w := newWorld(t, "a", "b", "c")
	w.policy(map[string]any{"dcgmExporter": map[string]any{"enabled": true, "version": "1"}, "dcgm": map[string]any{"version": "2"}})
	w.operate(map[string]string{"dcgmExporter": "nvidia-dcgm-exporter", "dcgm": "nvidia-dcgm"})
	before := w.Get(policyRef("policy"))
	r := w.runner()
	r.By = migrate.ByClusterPolicy
	c, err := migrate.Named("dcgm-exporter")
	if err != nil {
		t.Fatal(err)
	}
	step, err := r.Step(t.Context(), c, false)
	if want := "after the first node, disables dcgmExporter and dcgm in ClusterPolicy policy of nvidia.com"; err != nil || !strings.Contains(step.Text(), want) {
		t.Errorf("%v, want %q in the plan\n%s", err, want, step.Text())
	}
	if err := r.Run(t.Context(), step); err != nil {
		t.Fatal(err)
	}
	for _, node := range w.nodes {
		if got := w.running(ourNamespace, node); got != "outrigger-dcgm-exporter" || strings.Contains(w.running(theirNamespace, node), "nvidia-dcgm") {
			t.Errorf("node %s runs %q", node, got)
		}
	}
	for _, name := range []string{"nvidia-dcgm-exporter", "nvidia-dcgm"} {
		if w.Get(model.Ref{APIVersion: "apps/v1", Kind: "DaemonSet", Namespace: theirNamespace, Name: name}) != nil {
			t.Errorf("%s exists", name)
		}
	}
	if step, err = w.runner().Step(t.Context(), c, true); err != nil || !strings.Contains(step.Text(), "restores dcgmExporter and dcgm in ClusterPolicy policy") {
		t.Errorf("%v, the plan of the undo is\n%s", err, step.Text())
	}
	if err := w.runner().Run(t.Context(), step); err != nil {
		t.Fatal(err)
	}
	after := w.Get(policyRef("policy"))
	if d := cmp.Diff(before.Object["spec"], after.Object["spec"]); d != "" || len(after.GetAnnotations()) > 0 {
		t.Errorf("the ClusterPolicy has the annotations %v, and differs (-before +after):\n%s", after.GetAnnotations(), d)
	}
	for _, node := range w.nodes {
		if got := w.running(theirNamespace, node); !strings.Contains(got, "nvidia-dcgm nvidia-dcgm-exporter") {
			t.Errorf("after the undo, node %s runs %q", node, got)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.overlaps) > 0 {
		t.Errorf("both sides had pods at the same time: %q", w.overlaps)
	}
}

// TestClusterPolicyOfAFailedNode has one node on which Outrigger's plugin does not work. It goes back alone: NVIDIA's component
// is enabled again, and the labels keep it off the other nodes.
func TestClusterPolicyOfAFailedNode(t *testing.T) {
	w := newWorld(t, "a", "b", "c", "d")
	w.policy(map[string]any{"devicePlugin": map[string]any{"enabled": true}})
	w.operate(map[string]string{"devicePlugin": "nvidia-device-plugin-daemonset"})
	w.mu.Lock()
	w.broken[ourNamespace+"/outrigger-device-plugin d"] = true
	w.mu.Unlock()
	r := w.runner()
	limit := r.Timeout
	r.By = migrate.ByClusterPolicy
	r.Progress = func(format string, args ...any) {
		text := fmt.Sprintf(format, args...)
		w.Log(text)
		switch {
		case strings.HasPrefix(text, "device-plugin: waits: d: pod ") && strings.Contains(text, "CrashLoopBackOff") && !strings.Contains(text, ";"):
			r.Timeout = 0 // nothing else changes any more
		case strings.Contains(text, "failed on d"):
			r.Timeout = limit
		}
	}
	if err := w.hand(r, "device-plugin", false); err == nil || !strings.Contains(err.Error(), "d has been given back to NVIDIA's GPU Operator") {
		t.Errorf("got %v", err)
	}
	for node, want := range map[string]string{"a": migrate.Ours, "b": migrate.Ours, "c": migrate.Ours, "d": migrate.Theirs} {
		if got := w.label(node, devicePlugin); got != want {
			t.Errorf("node %s has %s, want %s", node, got, want)
		}
	}
	p := w.Get(policyRef("policy"))
	if on, _, _ := unstructured.NestedBool(p.Object, "spec", "devicePlugin", "enabled"); !on || len(p.GetAnnotations()) > 0 {
		t.Errorf("the ClusterPolicy is %v", p.Object)
	}
}

// TestInterruptedClusterPolicy ends the command while a pod of NVIDIA's plugin still ends, whose DaemonSet is gone. A
// repetition waits for the pod.
func TestInterruptedClusterPolicy(t *testing.T) {
	w := newWorld(t, "a", "b")
	w.policy(map[string]any{"devicePlugin": map[string]any{"enabled": true}})
	w.operate(map[string]string{"devicePlugin": "nvidia-device-plugin-daemonset"})
	const plugin = theirNamespace + "/nvidia-device-plugin-daemonset b"
	hold := func(on bool) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.held[plugin] = on
	}
	hold(true)
	ctx, cancel := context.WithCancelCause(t.Context())
	r := w.runner()
	r.By = migrate.ByClusterPolicy
	r.Progress = func(format string, args ...any) {
		if text := fmt.Sprintf(format, args...); strings.Contains(text, "b: pods of NVIDIA's GPU Operator still run") {
			cancel(errors.New("interrupted"))
		}
	}
	if err := w.handUntil(ctx, r, "device-plugin", false); err == nil || !strings.Contains(err.Error(), "interrupted") {
		t.Errorf("got %v", err)
	}
	if set := w.Get(model.Ref{APIVersion: "apps/v1", Kind: "DaemonSet", Namespace: theirNamespace, Name: "nvidia-device-plugin-daemonset"}); set != nil {
		t.Error("NVIDIA's DaemonSet exists")
	}
	r = w.runner()
	waited := false
	r.Progress = func(format string, args ...any) {
		if text := fmt.Sprintf(format, args...); strings.Contains(text, "b: pods of NVIDIA's GPU Operator still run") {
			waited = true
			hold(false)
		}
	}
	if err := w.hand(r, "device-plugin", false); err != nil || !waited {
		t.Errorf("the repetition has waited: %t, %v", waited, err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.overlaps) > 0 {
		t.Errorf("both sides had pods at the same time: %q", w.overlaps)
	}
}

// TestRefusedClusterPolicies changes nothing where an undo would not restore it, and restores what has no effect.
func TestRefusedClusterPolicies(t *testing.T) {
	w := newWorld(t, "a", "b")
	r := w.runner()
	r.By = migrate.ByClusterPolicy
	refused := func(component, want string) {
		t.Helper()
		if err := w.hand(r, component, false); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", component, err, want)
		}
		if got := w.label("b", devicePlugin); got != migrate.Theirs {
			t.Errorf("%s: node b has %s", component, got)
		}
	}
	refused(migrate.Driver, "all nodes would lose their driver at the same time")
	refused("device-plugin", "the cluster has 0 ClusterPolicies of nvidia.com")
	w.policy(map[string]any{"devicePlugin": map[string]any{"enabled": true}})
	refused("gfd", "ClusterPolicy policy of nvidia.com has no section spec.gfd")
	r.Timeout = 5 * time.Second
	refused("device-plugin", "NVIDIA's operator has not removed the DaemonSets gpu-operator/nvidia-device-plugin-daemonset within 5s")
	p := w.Get(policyRef("policy"))
	if on, _, _ := unstructured.NestedBool(p.Object, "spec", "devicePlugin", "enabled"); !on || len(p.GetAnnotations()) > 0 {
		t.Errorf("the ClusterPolicy is %v", p.Object)
	}
	w.Create(object(map[string]any{"apiVersion": "nvidia.com/v1", "kind": "ClusterPolicy", "metadata": map[string]any{"name": "second"}}))
	refused("device-plugin", "the cluster has 2 ClusterPolicies of nvidia.com")
}
