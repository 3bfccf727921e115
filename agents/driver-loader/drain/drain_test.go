package drain_test

import (
	"bytes"
	"context"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"outrigger.dev/agents/driver-loader/drain"
	"outrigger.dev/agents/driver-loader/internal/eviction"
	"outrigger.dev/pkg/kube/apitest"
)

var gpuPods = eviction.Request{Mode: eviction.GPUPods, TimeoutSeconds: 60}

// TestDrain runs the program against a real API server.
func TestDrain(t *testing.T) {
	kubeconfig := apitest.Kubeconfig(t, apitest.Start(t))
	for name, test := range map[string]func(*rig){
		"gpu-pods":    (*rig).testsOnlyPodsThatHoldGPUsAreEvicted,
		"budget":      (*rig).testsABudgetHoldsTheEviction,
		"recreated":   (*rig).testsAPodThatComesBackElsewhereStays,
		"refused":     (*rig).testsWhatMayNotBeEvictedKeepsAll,
		"daemon-sets": (*rig).testsPodsOfDaemonSetsAndStaticPods,
		"await":       (*rig).testsAwait,
		"signal":      (*rig).testsASignalEndsTheRun,
	} {
		t.Run(name, func(t *testing.T) { test(newRig(t, kubeconfig, name)) })
	}
}

// claim creates a claim of which a driver has allocated a device.
func (r *rig) claim(name, driver string) {
	r.Helper()
	claims := r.client.ResourceV1().ResourceClaims(r.name)
	c, err := claims.Create(r.Context(), &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: resourcev1.ResourceClaimSpec{
		Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{{Name: "one", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: "class"}}}},
	}}, metav1.CreateOptions{})
	if err != nil {
		r.Fatal(err)
	}
	c.Status.Allocation = &resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{Results: []resourcev1.DeviceRequestAllocationResult{
		{Request: "one", Driver: driver, Pool: r.name, Device: "device0"},
	}}}
	if _, err := claims.UpdateStatus(r.Context(), c, metav1.UpdateOptions{}); err != nil {
		r.Fatal(err)
	}
}

func claims(name string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "device", ResourceClaimName: &name}}
	}
}

func (r *rig) testsOnlyPodsThatHoldGPUsAreEvicted() {
	r.claim("of-a-gpu", "gpu.nvidia.com")
	r.claim("of-a-nic", "nic.example.com")
	template := "of-a-gpu"
	r.pod("gpu", "nvidia.com/gpu", nil)
	r.pod("shared", "nvidia.com/gpu.shared", nil)
	r.pod("mig", "nvidia.com/mig-1g.5gb", nil)
	r.pod("init", "", func(p *corev1.Pod) {
		p.Spec.InitContainers = container("nvidia.com/gpu").Containers
		p.Spec.InitContainers[0].Name = "first"
	})
	r.pod("dra", "", claims("of-a-gpu"))
	r.pod("dra-template", "", func(p *corev1.Pod) {
		p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "device", ResourceClaimTemplateName: &template}}
		p.Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{{Name: "device", ResourceClaimName: &template}}
	})
	r.pod("stays-nic", "", claims("of-a-nic"))
	r.pod("stays-no-claim", "", claims("absent"))
	r.pod("stays-cpu", "cpu", nil)
	r.pod("stays-elsewhere", "nvidia.com/gpu", func(p *corev1.Pod) { p.Spec.NodeName = "node2" })
	r.pod("stays-skip", "nvidia.com/gpu", func(p *corev1.Pod) { p.Labels["nvidia.com/gpu-driver-upgrade-drain.skip"] = "true" })
	code, lines, stderr := r.run(r.Context(), gpuPods, nil)
	if code != eviction.ExitDone {
		r.Errorf("exit code %d: %s", code, stderr)
	}
	if got, want := r.left(), "stays-cpu stays-elsewhere stays-nic stays-no-claim stays-skip"; got != want {
		r.Errorf("these pods are left: %s, want %s", got, want)
	}
	for _, name := range []string{"gpu", "shared", "mig", "init", "dra", "dra-template"} {
		if of(lines, eviction.Evicting, name) == nil || of(lines, eviction.Evicted, name) == nil {
			r.Errorf("pod %s is not in the report: %+v", name, lines)
		}
	}
	if l := of(lines, eviction.Left, "stays-skip"); l == nil || !strings.Contains(l.Text, "drain.skip=true") {
		r.Errorf("the pod that is left is not in the report: %+v", lines)
	}
}

func (r *rig) testsABudgetHoldsTheEviction() {
	r.pod("held", "nvidia.com/gpu", nil)
	r.budget("keep", "held")
	short := gpuPods
	short.TimeoutSeconds = 1
	code, lines, stderr := r.run(r.Context(), short, nil)
	l := of(lines, eviction.Blocked, "held")
	if code != eviction.ExitTimeout || r.left() != "held" || l == nil || l.Budget != "keep" || !strings.Contains(l.Text, "needs 1 healthy pods and has 1 currently") {
		r.Fatalf("exit code %d, left %q, lines %+v: %s", code, r.left(), lines, stderr)
	}
	if !strings.Contains(stderr, "pods are left at the end of the time-out") {
		r.Errorf("the error is %q", stderr)
	}

	// The eviction goes on when the budget allows it.
	allowed := false
	code, lines, stderr = r.run(r.Context(), gpuPods, func(l eviction.Line) {
		if l.Event == eviction.Blocked && !allowed {
			allowed = true
			if err := r.client.PolicyV1().PodDisruptionBudgets(r.name).Delete(r.Context(), "keep", metav1.DeleteOptions{}); err != nil {
				r.Error(err)
			}
		}
	})
	if code != eviction.ExitDone || r.left() != "" || of(lines, eviction.Evicted, "held") == nil {
		r.Errorf("exit code %d, left %q, lines %+v: %s", code, r.left(), lines, stderr)
	}
}

// A pod of a StatefulSet has the name of the one before it, and may be on another node.
func (r *rig) testsAPodThatComesBackElsewhereStays() {
	r.pod("held", "nvidia.com/gpu", nil)
	r.budget("keep", "held")
	moved := false // a budget may be reported again, with another count
	code, lines, stderr := r.run(r.Context(), gpuPods, func(l eviction.Line) {
		if l.Event != eviction.Blocked || moved {
			return
		}
		moved = true
		now := int64(0)
		if err := r.client.CoreV1().Pods(r.name).Delete(r.Context(), "held", metav1.DeleteOptions{GracePeriodSeconds: &now}); err != nil {
			r.Error(err)
		}
		r.pod("held", "nvidia.com/gpu", func(p *corev1.Pod) { p.Spec.NodeName = "node2" })
		if err := r.client.PolicyV1().PodDisruptionBudgets(r.name).Delete(r.Context(), "keep", metav1.DeleteOptions{}); err != nil {
			r.Error(err)
		}
	})
	if code != eviction.ExitDone || r.left() != "held" {
		r.Errorf("exit code %d, left %q, lines %+v: %s", code, r.left(), lines, stderr)
	}
}

func (r *rig) testsWhatMayNotBeEvictedKeepsAll() {
	r.pod("fine", "nvidia.com/gpu", nil)
	r.pod("bare", "nvidia.com/gpu", func(p *corev1.Pod) { p.OwnerReferences = nil })
	r.pod("data", "nvidia.com/gpu", func(p *corev1.Pod) {
		p.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
	})
	code, lines, stderr := r.run(r.Context(), gpuPods, nil)
	if code != eviction.ExitRefused || r.left() != "bare data fine" || !strings.Contains(stderr, "pods may not be evicted") {
		r.Errorf("exit code %d, left %q: %s", code, r.left(), stderr)
	}
	for pod, want := range map[string]string{
		"bare": "Pods that declare no controller (set force in upgradePolicy to evict it nevertheless)",
		"data": "Pods with local storage (set deleteEmptyDir in upgradePolicy to evict it nevertheless)",
	} {
		if l := of(lines, eviction.Refused, pod); l == nil || l.Text != want {
			r.Errorf("the report says of %s: %+v, want %q", pod, l, want)
		}
	}
	all := gpuPods
	all.Force, all.DeleteEmptyDir = true, true
	if code, _, stderr := r.run(r.Context(), all, nil); code != eviction.ExitDone || r.left() != "" {
		r.Errorf("exit code %d, left %q: %s", code, r.left(), stderr)
	}
}

func (r *rig) testsPodsOfDaemonSetsAndStaticPods() {
	isController := true
	set, err := r.client.AppsV1().DaemonSets(r.name).Create(r.Context(), &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: "daemon"}, Spec: appsv1.DaemonSetSpec{
		Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"name": "daemon"}},
		// Its controller leaves the pod alone, which is not of this template.
		UpdateStrategy: appsv1.DaemonSetUpdateStrategy{Type: appsv1.OnDeleteDaemonSetStrategyType},
		Template:       corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"name": "daemon"}}, Spec: container("")},
	}}, metav1.CreateOptions{})
	if err != nil {
		r.Fatal(err)
	}
	r.pod("daemon", "nvidia.com/gpu", func(p *corev1.Pod) {
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "daemon", UID: set.UID, Controller: &isController}}
	})
	r.pod("static", "nvidia.com/gpu", func(p *corev1.Pod) {
		p.Annotations, p.OwnerReferences = map[string]string{corev1.MirrorPodAnnotationKey: "x"}, nil
	})
	r.pod("other", "", nil)
	code, lines, _ := r.run(r.Context(), gpuPods, nil)
	if code != eviction.ExitRefused || of(lines, eviction.Refused, "daemon") == nil || of(lines, eviction.Refused, "static") == nil {
		r.Errorf("exit code %d, lines %+v", code, lines)
	}
	code, lines, stderr := r.run(r.Context(), eviction.Request{Mode: eviction.AllPods, PodSelector: "name!=kept", TimeoutSeconds: 60}, nil)
	if code != eviction.ExitDone || r.left() != "daemon static" || of(lines, eviction.Left, "daemon") == nil || of(lines, eviction.Left, "static") == nil {
		r.Errorf("exit code %d, left %q, lines %+v: %s", code, r.left(), lines, stderr)
	}
}

func (r *rig) testsAwait() {
	r.pod("job", "", nil)
	r.pod("other", "", nil)
	await := eviction.Request{Mode: eviction.Await, PodSelector: "name=job", TimeoutSeconds: 1}
	if code, lines, stderr := r.run(r.Context(), await, nil); code != eviction.ExitTimeout || of(lines, eviction.Running, "job") == nil || len(lines) != 1 {
		r.Errorf("exit code %d, lines %+v: %s", code, lines, stderr)
	}
	await.TimeoutSeconds = 0
	code, _, stderr := r.run(r.Context(), await, func(eviction.Line) {
		pods := r.client.CoreV1().Pods(r.name)
		pod, err := pods.Get(r.Context(), "job", metav1.GetOptions{})
		if err == nil {
			pod.Status.Phase = corev1.PodSucceeded
			_, err = pods.UpdateStatus(r.Context(), pod, metav1.UpdateOptions{})
		}
		if err != nil {
			r.Error(err)
		}
	})
	if code != eviction.ExitDone || r.left() != "job other" {
		r.Errorf("exit code %d, left %q: %s", code, r.left(), stderr)
	}
}

func (r *rig) testsASignalEndsTheRun() {
	r.pod("held", "nvidia.com/gpu", nil)
	r.budget("keep", "held")
	ctx, cancel := context.WithCancel(r.Context())
	if code, _, stderr := r.run(ctx, gpuPods, func(eviction.Line) { cancel() }); code != eviction.ExitTemporary || r.left() != "held" {
		r.Errorf("exit code %d, left %q: %s", code, r.left(), stderr)
	}
}

func TestRequestsThatAreRejected(t *testing.T) {
	for name, tc := range map[string]struct{ in, want string }{
		"no JSON":                 {"x", "read the request from standard input: invalid character"},
		"nothing":                 {"", "read the request from standard input: EOF"},
		"an unknown key":          {`{"nod":"a"}`, `unknown field "nod"`},
		"an unknown mode":         {`{"mode":"all","node":"a"}`, `the mode is "all": use await, gpu-pods or all-pods`},
		"no node":                 {`{"mode":"gpu-pods"}`, "the request has no node"},
		"a selector that is none": {`{"mode":"await","node":"a","podSelector":"a in"}`, `podSelector "a in" is no label selector`},
		"all pods to await":       {`{"mode":"await","node":"a"}`, "podSelector is empty: all pods of a node never end"},
		"a time below zero":       {`{"mode":"gpu-pods","node":"a","timeoutSeconds":-1}`, "timeoutSeconds is -1: use 0 or more"},
		"no kubeconfig":           {`{"mode":"gpu-pods","node":"a"}`, "read kubeconfig /nonexistent"},
	} {
		t.Run(name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			code := drain.Main(t.Context(), []string{"x", "--kubeconfig", "/nonexistent"}, strings.NewReader(tc.in), &stdout, &stderr)
			if code != eviction.ExitUsage || !strings.Contains(stderr.String(), tc.want) {
				t.Errorf("exit code %d: %s, want %q", code, stderr.String(), tc.want)
			}
		})
	}
}
