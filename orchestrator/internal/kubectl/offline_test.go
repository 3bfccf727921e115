package kubectl_test

import (
	"encoding/json"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"outrigger.dev/orchestrator/internal/archive"
	"outrigger.dev/orchestrator/internal/doctor"
	"outrigger.dev/orchestrator/internal/facts"
	"outrigger.dev/orchestrator/internal/read"
)

// A diagnosis of an archive says the same as a diagnosis of the cluster.
func (r rig) offline(t *testing.T) {
	r.Cluster = r.In(t)
	r.waiting()
	dest := filepath.Join(t.TempDir(), "a.tar.gz")
	if out, code := r.run("must-gather", "--dest", dest); code != 0 {
		t.Fatalf("exit code %d\n%s", code, out)
	}
	gathered, err := archive.Read(dest)
	assert.NilError(t, err)
	r.views(t, dest)
	for _, target := range []facts.Target{
		{}, {Node: "gpu-1"}, {Node: "gpu-2"}, {Namespace: "ml", Pod: "train"}, {Namespace: "ml", Pod: "waits"}, {Namespace: "ml", Pod: "refused-0"}, {Namespace: namespace, Pod: "plugin-2"},
	} {
		live, err := read.Read(t.Context(), read.Config{Client: r.Client, Target: target, Ask: true})
		assert.NilError(t, err)
		want, got := diagnosis(t, live, target), diagnosis(t, gathered, target)
		if want != got {
			t.Errorf("%s: the archive says\n%s\nthe cluster says\n%s", target, got, want)
		}
	}
}

// views compares the views of an archive and of the cluster.
func (r rig) views(t *testing.T, dest string) {
	for _, command := range [][]string{{"status"}, {"top"}, {"top", "gpu-1"}} {
		live, code := r.run(append(command, "-o", "json")...)
		offline, again := r.run(append(command, "-o", "json", "--offline", dest)...)
		// Only the cluster knows whether an orchestrator works.
		if code != again || !sameBut(t, live, offline, "warning", "noUse") {
			t.Errorf("%v: the archive says (%d)\n%s\nthe cluster says (%d)\n%s", command, again, offline, code, live)
		}
	}
	if out, code := r.run("top", "missing", "--offline", dest); code != 1 || !strings.Contains(out, "the node missing has no label of a GPU") {
		t.Errorf("a missing node: exit code %d\n%s", code, out)
	}
}

// sameBut reports whether two JSON objects differ only in some fields.
func sameBut(t *testing.T, a, b string, except ...string) bool {
	t.Helper()
	var all [2]map[string]any
	for i, text := range []string{a, b} {
		assert.NilError(t, json.Unmarshal([]byte(text), &all[i]))
		for _, field := range except {
			delete(all[i], field)
		}
	}
	return reflect.DeepEqual(all[0], all[1])
}

func diagnosis(t *testing.T, f facts.Facts, target facts.Target) string {
	t.Helper()
	report := doctor.Diagnose(f, target)
	report.Taken = time.Time{}
	text, err := json.MarshalIndent(report, "", "  ")
	assert.NilError(t, err)
	return string(text)
}

// waiting creates a pod that no node has room for, and the Event of a pod that a quota refuses.
func (r rig) waiting() {
	big := r.container("train")
	big.Resources.Limits = corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("16")}
	r.create("v1", "Pod", &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: "waits"}, Spec: corev1.PodSpec{Containers: []corev1.Container{big}},
		Status: corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "0/3 nodes are available: 3 Insufficient nvidia.com/gpu.",
		}}},
	})
	r.create("v1", "Event", &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: "waits.1"}, Reason: "FailedScheduling", Message: "0/3 nodes are available: 3 Insufficient nvidia.com/gpu.",
		InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: "ml", Name: "waits"},
	})
	r.create("v1", "ResourceQuota", &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: "gpus"}, Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"requests.nvidia.com/gpu": resource.MustParse("3")}},
	})
	r.create("v1", "Event", &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: "refused.1"}, Reason: "FailedCreate",
		Message:        `create Pod refused-0 in StatefulSet refused failed error: pods "refused-0" is forbidden: exceeded quota: gpus, requested: requests.nvidia.com/gpu=1, used: requests.nvidia.com/gpu=3, limited: requests.nvidia.com/gpu=3`,
		InvolvedObject: corev1.ObjectReference{Kind: "StatefulSet", Namespace: "ml", Name: "refused"},
	})
}
