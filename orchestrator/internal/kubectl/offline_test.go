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
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"outrigger.dev/orchestrator/internal/archive"
	"outrigger.dev/orchestrator/internal/doctor"
	"outrigger.dev/orchestrator/internal/facts"
	"outrigger.dev/orchestrator/internal/read"
	"outrigger.dev/pkg/cause"
)

// A diagnosis of an archive says the same as a diagnosis of the cluster.
func (r rig) offline(t *testing.T) {
	r.Cluster = r.In(t)
	r.waiting()
	r.claims()
	dest := filepath.Join(t.TempDir(), "a.tar.gz")
	if out, code := r.run("must-gather", "--dest", dest); code != 0 {
		t.Fatalf("exit code %d\n%s", code, out)
	}
	gathered, err := archive.Read(dest)
	assert.NilError(t, err)
	r.views(t, dest)
	for _, target := range []facts.Target{
		{}, {Node: "gpu-1"}, {Node: "gpu-2"}, {Namespace: "ml", Pod: "train"}, {Namespace: "ml", Pod: "waits"}, {Namespace: "ml", Pod: "refused-0"}, {Namespace: "ml", Pod: "claims"}, {Namespace: namespace, Pod: "plugin-2"},
	} {
		live, err := read.Read(t.Context(), read.Config{Client: r.Client, Target: target, Ask: true})
		assert.NilError(t, err)
		live.Taken = gathered.Taken // texts have ages
		if target.Pod == "claims" && doctor.Diagnose(live, target).Findings[0].Code != cause.GPUsExhausted {
			t.Errorf("the claim is not explained:\n%s", diagnosis(t, live, target))
		}
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

// claims creates a claim that has the only device, and a pod with a claim that waits for it.
func (r rig) claims() {
	r.CreateTyped("resource.k8s.io/v1", "DeviceClass", &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "gpu.nvidia.com"}, Spec: resourcev1.DeviceClassSpec{
		Selectors: []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{Expression: "device.driver == 'gpu.nvidia.com'"}}},
	}})
	r.CreateTyped("resource.k8s.io/v1", "ResourceSlice", &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "gpu-1"}, Spec: resourcev1.ResourceSliceSpec{
		Driver: "gpu.nvidia.com", NodeName: new("gpu-1"), Pool: resourcev1.ResourcePool{Name: "gpu-1", ResourceSliceCount: 1}, Devices: []resourcev1.Device{{Name: "gpu-0"}},
	}})
	for _, name := range []string{"held", "wanted"} {
		claim := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: name}}
		claim.Spec.Devices.Requests = []resourcev1.DeviceRequest{{Name: "gpu", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "gpu.nvidia.com"}}}
		if name == "held" {
			claim.Status.Allocation = &resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{Results: []resourcev1.DeviceRequestAllocationResult{
				{Request: "gpu", Driver: "gpu.nvidia.com", Pool: "gpu-1", Device: "gpu-0"},
			}}}
		}
		r.CreateTyped("resource.k8s.io/v1", "ResourceClaim", claim)
	}
	c := r.container("claims")
	c.Resources.Claims = []corev1.ResourceClaim{{Name: "gpu"}}
	r.CreateTyped("v1", "Pod", &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: "claims"}, Spec: corev1.PodSpec{
		Containers: []corev1.Container{c}, ResourceClaims: []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimName: new("wanted")}},
	}})
}

// waiting creates a pod that no node has room for, and the Event of a pod that a quota refuses.
func (r rig) waiting() {
	big := r.container("train")
	big.Resources.Limits = corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("16")}
	r.CreateTyped("v1", "Pod", &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: "waits"}, Spec: corev1.PodSpec{Containers: []corev1.Container{big}},
		Status: corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "0/3 nodes are available: 3 Insufficient nvidia.com/gpu.",
		}}},
	})
	r.CreateTyped("v1", "Event", &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: "waits.1"}, Reason: "FailedScheduling", Message: "0/3 nodes are available: 3 Insufficient nvidia.com/gpu.",
		InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: "ml", Name: "waits"},
	})
	r.CreateTyped("v1", "ResourceQuota", &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: "gpus"}, Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"requests.nvidia.com/gpu": resource.MustParse("3")}},
	})
	r.CreateTyped("v1", "Event", &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: "refused.1"}, Reason: "FailedCreate",
		Message:        `create Pod refused-0 in StatefulSet refused failed error: pods "refused-0" is forbidden: exceeded quota: gpus, requested: requests.nvidia.com/gpu=1, used: requests.nvidia.com/gpu=3, limited: requests.nvidia.com/gpu=3`,
		InvolvedObject: corev1.ObjectReference{Kind: "StatefulSet", Namespace: "ml", Name: "refused"},
	})
}
