package doctor_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"outrigger.dev/orchestrator/internal/facts"
	"outrigger.dev/orchestrator/internal/model"
	"outrigger.dev/pkg/cause"
)

const (
	gpu  = "nvidia.com/gpu"
	node = "n1"
	ns   = "gpu-operator-resources"
)

func now() time.Time { return time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC) }

func ago(d time.Duration) metav1.Time { return metav1.NewTime(now().Add(-d)) }

// agents are the agents of a node, in the order of the chain.
func agents() []string {
	return []string{facts.FeatureDiscovery, facts.DriverLoader, facts.MIGManager, facts.ContainerToolkit, facts.DevicePlugin}
}

// cluster has facts that a test changes.
type cluster struct{ facts.Facts }

// healthy returns a cluster whose nodes have 8 GPUs that can be used, and ready agents.
func healthy(names ...string) *cluster {
	c := &cluster{facts.Facts{Taken: now(), Server: "v1.37.1", RuntimeClasses: []*nodev1.RuntimeClass{{ObjectMeta: metav1.ObjectMeta{Name: "nvidia"}, Handler: "nvidia"}}}}
	for _, a := range agents() {
		labels := map[string]string{"app.kubernetes.io/part-of": "outrigger", "app.kubernetes.io/component": a}
		c.DaemonSets = append(c.DaemonSets, &appsv1.DaemonSet{
			ObjectMeta: metav1.ObjectMeta{Name: "nvidia-" + a, Namespace: ns, Labels: labels},
			Spec: appsv1.DaemonSetSpec{Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
				NodeSelector: map[string]string{"nvidia.com/gpu.present": "true"},
			}}},
		})
	}
	for _, name := range names {
		c.addNode(name)
	}
	return c
}

func (c *cluster) addNode(name string) *corev1.Node {
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, CreationTimestamp: ago(24 * time.Hour), Annotations: map[string]string{},
			Labels: map[string]string{"nvidia.com/gpu.present": "true", "kubernetes.io/hostname": name},
		},
		Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{
			{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: ago(24 * time.Hour)},
			{Type: "GPUReady", Status: corev1.ConditionTrue, Reason: "GPUsReady", LastTransitionTime: ago(time.Hour)},
		}},
	}
	c.Nodes = append(c.Nodes, n)
	offer(n, gpu, 8, 8)
	for _, a := range agents() {
		c.Pods = append(c.Pods, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Name: a + "-" + name, Namespace: ns, CreationTimestamp: ago(24 * time.Hour),
				Labels:          map[string]string{"app.kubernetes.io/part-of": "outrigger", "app.kubernetes.io/component": a},
				OwnerReferences: []metav1.OwnerReference{{Kind: "DaemonSet", Name: "nvidia-" + a, Controller: new(true), UID: types.UID(a)}},
			},
			Spec: corev1.PodSpec{NodeName: name},
			Status: corev1.PodStatus{
				Phase:             corev1.PodRunning,
				Conditions:        []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: ago(time.Hour)}},
				ContainerStatuses: []corev1.ContainerStatus{{Name: a, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}},
			},
		})
	}
	return n
}

func offer(n *corev1.Node, name string, allocatable, capacity int64) {
	set := func(list *corev1.ResourceList, count int64) {
		if *list == nil {
			*list = corev1.ResourceList{}
		}
		(*list)[corev1.ResourceName(name)] = *resource.NewQuantity(count, resource.DecimalSI)
	}
	set(&n.Status.Allocatable, allocatable)
	set(&n.Status.Capacity, capacity)
}

func (c *cluster) node(name string) *corev1.Node {
	for _, n := range c.Nodes {
		if n.Name == name {
			return n
		}
	}
	panic("no node " + name)
}

func (c *cluster) agent(name, on string) *corev1.Pod {
	for _, p := range c.Pods {
		if p.Name == name+"-"+on {
			return p
		}
	}
	panic("no pod of " + name)
}

// unready sets the condition GPUReady of a node, as feature discovery does, and takes its GPUs away.
func (c *cluster) unready(on string, code cause.Code) {
	n := c.node(on)
	status := corev1.ConditionFalse
	if code == cause.Starting || code == cause.DriverClaimed {
		status = corev1.ConditionUnknown
	}
	n.Status.Conditions[1] = corev1.NodeCondition{
		Type: "GPUReady", Status: status, Reason: string(code), Message: "it is so; " + code.Row().Fix, LastTransitionTime: ago(20 * time.Minute),
	}
	offer(n, gpu, 0, 8)
}

// notReady makes the pod of an agent unready.
func (c *cluster) notReady(agent, on string) *corev1.Pod {
	p := c.agent(agent, on)
	p.Status.Conditions[0] = corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionFalse, LastTransitionTime: ago(20 * time.Minute)}
	return p
}

// fails gives a pod of an agent a reason of the kubelet.
func (c *cluster) fails(agent, on string, reason cause.Code) {
	p := c.notReady(agent, on)
	switch reason {
	case cause.Terminating:
		p.DeletionTimestamp = new(ago(time.Hour))
	case cause.PodFailed:
		p.Status = corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted", Message: "the node was low on memory"}
	case cause.NotReady:
	case cause.ContainerCreating:
		p.Status.Phase = corev1.PodPending
		p.Status.ContainerStatuses[0].State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}}
	case cause.OOMKilled:
		p.Status.ContainerStatuses[0].State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "OOMKilled", ExitCode: 137}}
	case cause.CreatePodSandboxError:
		p.Status.Phase = corev1.PodPending
		p.Status.ContainerStatuses[0].State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}}
		c.event("Pod", p.Namespace, p.Name, "FailedCreatePodSandBox", "no runtime for \"nvidia\" is configured")
	case cause.Unschedulable:
		p.Spec.NodeName, p.Status.Phase = "", corev1.PodPending
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "0/1 nodes are available: 1 Insufficient cpu."}}
		p.Status.ContainerStatuses = nil
	default:
		p.Status.Phase = corev1.PodPending
		p.Status.ContainerStatuses[0].State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: string(reason), Message: "it is so"}}
	}
}

func (c *cluster) event(kind, namespace, name, reason, message string) {
	c.Events = append(c.Events, &corev1.Event{
		InvolvedObject: corev1.ObjectReference{Kind: kind, Namespace: namespace, Name: name}, Type: corev1.EventTypeWarning, Reason: reason, Message: message,
		LastTimestamp: ago(time.Minute),
	})
}

func (c *cluster) answers(agent, on, output, failure string, command ...string) {
	c.Answers = append(c.Answers, facts.Answer{
		Node: on, Namespace: ns, Pod: agent + "-" + on, Command: append([]string{"/usr/bin/" + agent}, command...), Output: output, Error: failure,
	})
}

// policy adds a ClusterPolicy with a status.
func (c *cluster) policy(t *testing.T, s model.Status) {
	t.Helper()
	status, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&s)
	if err != nil {
		t.Fatal(err)
	}
	c.Policies = append(c.Policies, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "outrigger.dev/v1alpha1", "kind": "ClusterPolicy", "metadata": map[string]any{"name": "gpus"}, "spec": map[string]any{}, "status": status,
	}})
}

// user adds a pod that requests devices. It waits for a node if on is empty.
func (c *cluster) user(name, on string, requests map[string]int64) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "team", CreationTimestamp: ago(2 * time.Hour)},
		Spec:       corev1.PodSpec{NodeName: on, Containers: []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{}}}}},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning},
	}
	for resourceName, count := range requests {
		p.Spec.Containers[0].Resources.Limits[corev1.ResourceName(resourceName)] = *resource.NewQuantity(count, resource.DecimalSI)
	}
	if on == "" {
		p.Status.Phase = corev1.PodPending
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "0/1 nodes are available"}}
	}
	c.Pods = append(c.Pods, p)
	return p
}

func encoded(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("encode %v: %v", v, err))
	}
	return string(text)
}
