package drain_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"

	"outrigger.dev/agents/driver-loader/drain"
	"outrigger.dev/agents/driver-loader/internal/eviction"
	"outrigger.dev/pkg/kube"
	"outrigger.dev/pkg/pace"
)

// rig is a node of a cluster with a real API server, and a namespace of the same name. It has no
// kubelet, so that its pods have no grace period.
type rig struct {
	*testing.T
	kubeconfig string
	client     kubernetes.Interface
	name       string
	set        *appsv1.ReplicaSet
}

func newRig(t *testing.T, kubeconfig, name string) *rig {
	r := &rig{T: t, kubeconfig: kubeconfig, name: name}
	rc, err := kube.Config{Kubeconfig: kubeconfig, Agent: "test"}.REST()
	if err != nil {
		t.Fatal(err)
	}
	if r.client, err = kubernetes.NewForConfig(rc); err != nil {
		t.Fatal(err)
	}
	if _, err := r.client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	labels := map[string]string{"app": "set"}
	set := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Name: "set"}, Spec: appsv1.ReplicaSetSpec{
		Replicas: new(int32), Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: container("")},
	}}
	if r.set, err = r.client.AppsV1().ReplicaSets(name).Create(t.Context(), set, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	return r
}

// container returns the spec of a pod that requests one of a resource, or nothing.
func container(of corev1.ResourceName) corev1.PodSpec {
	spec := corev1.PodSpec{
		TerminationGracePeriodSeconds: new(int64),
		Containers:                    []corev1.Container{{Name: "main", Image: "image"}},
	}
	if of != "" {
		list := corev1.ResourceList{of: resource.MustParse("1")}
		spec.Containers[0].Resources = corev1.ResourceRequirements{Limits: list, Requests: list}
	}
	return spec
}

// pod creates a pod of the ReplicaSet that runs and is ready, after a change.
func (r *rig) pod(name string, of corev1.ResourceName, change func(*corev1.Pod)) {
	r.Helper()
	isController := true
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"name": name}, OwnerReferences: []metav1.OwnerReference{
		{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: r.set.Name, UID: r.set.UID, Controller: &isController},
	}}, Spec: container(of)}
	p.Spec.NodeName = r.name
	if change != nil {
		change(p)
	}
	status := p.Status
	made, err := r.client.CoreV1().Pods(r.name).Create(r.Context(), p, metav1.CreateOptions{})
	if err != nil {
		r.Fatal(err)
	}
	made.Status = status
	made.Status.Phase = corev1.PodRunning
	made.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	if _, err := r.client.CoreV1().Pods(r.name).UpdateStatus(r.Context(), made, metav1.UpdateOptions{}); err != nil {
		r.Fatal(err)
	}
}

// budget creates a PodDisruptionBudget that allows no eviction of a pod, and waits until its
// controller has seen it.
func (r *rig) budget(name, pod string) {
	r.Helper()
	one := intstr.FromInt32(1)
	budgets := r.client.PolicyV1().PodDisruptionBudgets(r.name)
	_, err := budgets.Create(r.Context(), &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: policyv1.PodDisruptionBudgetSpec{
		MinAvailable: &one, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"name": pod}},
	}}, metav1.CreateOptions{})
	for err == nil {
		var b *policyv1.PodDisruptionBudget
		b, err = budgets.Get(r.Context(), name, metav1.GetOptions{})
		if err == nil && b.Status.ObservedGeneration == b.Generation && b.Status.CurrentHealthy == 1 {
			return
		}
		pace.Pause(r.Context(), 50*time.Millisecond)
	}
	r.Fatal(err)
}

// left returns the names of the pods that are there.
func (r *rig) left() string {
	r.Helper()
	pods, err := r.client.CoreV1().Pods(r.name).List(r.Context(), metav1.ListOptions{})
	if err != nil {
		r.Fatal(err)
	}
	var names []string
	for _, p := range pods.Items {
		names = append(names, p.Name)
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

// run runs the program to its end. saw gets each line at once.
func (r *rig) run(ctx context.Context, request eviction.Request, saw func(eviction.Line)) (code int, lines []eviction.Line, stderr string) {
	r.Helper()
	request.Node = r.name
	stdin, err := json.Marshal(request)
	if err != nil {
		r.Fatal(err)
	}
	out, in := io.Pipe()
	var errs bytes.Buffer
	done := make(chan int, 1)
	go func() {
		done <- drain.Main(ctx, []string{"x", "--kubeconfig", r.kubeconfig, "--retry-every", "100ms"}, bytes.NewReader(stdin), in, &errs)
		_ = in.Close()
	}()
	for d := json.NewDecoder(out); ; {
		var l eviction.Line
		if err := d.Decode(&l); err != nil {
			break
		}
		lines = append(lines, l)
		if saw != nil {
			saw(l)
		}
	}
	return <-done, lines, errs.String()
}

// of returns the line about a pod with an event.
func of(lines []eviction.Line, event eviction.Event, pod string) *eviction.Line {
	for _, l := range lines {
		if l.Event == event && strings.HasSuffix(l.Pod, "/"+pod) {
			return &l
		}
	}
	return nil
}
