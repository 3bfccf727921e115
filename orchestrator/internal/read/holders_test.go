package read_test

import (
	"testing"

	"gotest.tools/v3/assert"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"outrigger.dev/orchestrator/internal/doctor"
	"outrigger.dev/orchestrator/internal/facts"
	"outrigger.dev/orchestrator/internal/model"
	"outrigger.dev/orchestrator/internal/read"
)

// user creates a pod that requests GPUs. It waits for a node if on is empty.
func (r rig) user(name, on, count string) {
	r.Helper()
	r.CreateTyped("v1", "Pod", &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name},
		Spec: corev1.PodSpec{NodeName: on, Containers: []corev1.Container{{
			Name: "main", Image: "example.com/t:1", Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{"nvidia.com/gpu": resource.MustParse(count)}},
		}}},
	})
}

// exporter creates the exporter of the node.
func (r rig) exporter() {
	r.Helper()
	labels := map[string]string{"app.kubernetes.io/part-of": "outrigger", "app.kubernetes.io/component": facts.Exporter}
	spec := corev1.PodSpec{HostPID: true, Containers: []corev1.Container{{Name: facts.Exporter, Image: "example.com/e:1"}}}
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: spec}
	template.Spec.NodeSelector = map[string]string{"none": "none"}
	r.CreateTyped("apps/v1", "DaemonSet", &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: facts.Exporter}, Spec: appsv1.DaemonSetSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: template},
	})
	spec.NodeName = node
	r.CreateTyped("v1", "Pod", &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "exporter-1", Labels: labels, OwnerReferences: []metav1.OwnerReference{r.owner(ns, facts.Exporter)}}, Spec: spec,
		Status: corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{{Name: facts.Exporter, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}},
	})
}

// TestTheProcessesThatHoldGPUs has a pod that waits for GPUs of another pod. Only the exporter is asked, and only for that pod.
func TestTheProcessesThatHoldGPUs(t *testing.T) {
	r := newRig(t)
	r.exporter()
	r.Patch(model.Ref{APIVersion: "v1", Kind: "Node", Name: node}, "status", map[string]any{"status": map[string]any{"allocatable": map[string]any{"nvidia.com/gpu": "8"}}})
	r.user("etl", node, "6")
	r.user("wants", "", "4")
	target := facts.Target{Namespace: "team", Pod: "wants"}
	live := r.read(r.Client, target)
	assert.DeepEqual(t, asked(live), []string{ns + "/exporter-1"})
	everything, err := read.Everything(t.Context(), read.Config{Client: r.Client, Ask: true})
	assert.NilError(t, err)
	for name, f := range map[string]facts.Facts{"live": live, "all": everything} {
		report := doctor.Diagnose(f, target)
		if len(report.Holders) != 1 || len(report.Unseen) > 0 {
			t.Fatalf("%s: %+v", name, report)
		}
		h := report.Holders[0]
		if h.Pods[0] != "team/etl" || h.Count != 6 || h.Node != node || len(h.Processes) != 1 || h.Processes[0].Command != "python3" {
			t.Errorf("%s: %+v", name, h)
		}
	}
	for _, other := range []facts.Target{{}, {Node: node}, {Namespace: "team", Pod: "etl"}} {
		assert.DeepEqual(t, asked(r.read(r.Client, other)), []string{ns + "/loader-1"})
	}
	f, err := read.Read(t.Context(), read.Config{Client: r.Client, Target: target})
	assert.NilError(t, err)
	if report := doctor.Diagnose(f, target); len(f.Answers) > 0 || len(report.Unseen) != 1 {
		t.Errorf("without questions: %+v", report)
	}
}
