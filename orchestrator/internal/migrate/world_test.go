package migrate_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"outrigger.dev/charts"
	"outrigger.dev/orchestrator/internal/cluster/clustertest"
	"outrigger.dev/orchestrator/internal/migrate"
	"outrigger.dev/orchestrator/internal/model"
	"outrigger.dev/pkg/agent/agenttest"
	"outrigger.dev/pkg/pace"
)

const (
	theirNamespace = "gpu-operator"
	ourNamespace   = "gpu-operator-resources"
	gpuResource    = "nvidia.com/gpu"
)

// world is a cluster with nodes of GPUs, DaemonSets of NVIDIA's GPU Operator, and DaemonSets of Outrigger.
type world struct {
	clustertest.Cluster
	nodes []string

	mu sync.Mutex
	// broken has DaemonSets whose pods do not become ready: "NAMESPACE/NAME", or "NAMESPACE/NAME NODE".
	broken map[string]bool
	// offers is the number of GPUs that a plugin in a namespace offers.
	offers map[string]int
	// held keeps pods of a DaemonSet in the state Terminating: "NAMESPACE/NAME", or "NAMESPACE/NAME NODE".
	held map[string]bool
	// silent kubelets do not report changes of the GPUs.
	silent bool
	// overlaps lists nodes with pods of both sides for one component.
	overlaps []string
}

// theirSets are names of NVIDIA's DaemonSets, with the label that each selects.
func theirSets() map[string]string {
	return map[string]string{
		"nvidia-dcgm-exporter": "dcgm-exporter", "nvidia-dcgm": "dcgm", "gpu-feature-discovery": "gpu-feature-discovery", "nvidia-mig-manager": "mig-manager",
		"nvidia-device-plugin-daemonset": "device-plugin", "nvidia-container-toolkit-daemonset": "container-toolkit",
		"nvidia-driver-daemonset": "driver", "nvidia-operator-validator": "operator-validator",
	}
}

// newWorld starts an API server with GPU nodes, on which NVIDIA's GPU Operator works. Outrigger is installed with the
// values of a plan.
func newWorld(t *testing.T, nodes ...string) *world {
	t.Helper()
	w := &world{Cluster: clustertest.New(t), nodes: nodes, broken: map[string]bool{}, offers: map[string]int{theirNamespace: 8, ourNamespace: 8}, held: map[string]bool{}}
	w.REST.QPS = -1 // the kubelets and the test share the client
	w.Client = w.Connect()
	for _, namespace := range []string{theirNamespace, ourNamespace} {
		w.Create(object(map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": namespace}}))
	}
	for _, name := range nodes {
		w.gpuNode(name)
	}
	for name, label := range theirSets() {
		w.Create(theirs(name, "nvidia.com/gpu.deploy."+label))
	}
	w.install()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for pace.Pause(ctx, 50*time.Millisecond) {
			// What fails now is tried again.
			_ = w.kubelets(ctx)
		}
	}()
	t.Cleanup(func() { cancel(); <-ended })
	agenttest.Poll(t, "NVIDIA's pods", func() bool {
		return len(w.podsOf(theirNamespace, "")) == len(theirSets())*len(nodes) && w.allReady(theirNamespace)
	})
	return w
}

func object(o map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: o}
}

func nodeRef(name string) model.Ref { return model.Ref{APIVersion: "v1", Kind: "Node", Name: name} }

func (w *world) gpuNode(name string) {
	w.Helper()
	labels := map[string]any{"kubernetes.io/os": "linux", "nvidia.com/gpu.present": "true", "kubernetes.io/hostname": name, "nvidia.com/mig.capable": "true"}
	const feature = "feature.node.kubernetes.io/"
	labels[feature+"kernel-version.full"], labels[feature+"system-os_release.ID"], labels[feature+"system-os_release.VERSION_ID"] = "6.8.0-60-generic", "ubuntu", "22.04"
	for _, label := range theirSets() {
		labels["nvidia.com/gpu.deploy."+label] = "true"
	}
	w.Create(object(map[string]any{"apiVersion": "v1", "kind": "Node", "metadata": map[string]any{"name": name, "labels": labels}}))
	w.status(name, true, 8)
	// Admission adds the taint of a node that is not ready.
	w.Patch(nodeRef(name), "", map[string]any{"spec": map[string]any{"taints": nil}})
}

// status sets the status of a node.
func (w *world) status(name string, ready bool, allocatable int) {
	w.Helper()
	state := "False"
	if ready {
		state = "True"
	}
	w.Patch(nodeRef(name), "status", map[string]any{"status": map[string]any{
		"capacity": map[string]any{gpuResource: "8", "pods": "110"}, "allocatable": map[string]any{gpuResource: fmt.Sprint(allocatable), "pods": "110"},
		"conditions": []any{map[string]any{"type": "Ready", "status": state, "reason": "Test"}},
	}})
}

// theirs returns a DaemonSet as NVIDIA's GPU Operator makes it.
func theirs(name, label string) *unstructured.Unstructured {
	labels := map[string]any{"app": name}
	return object(map[string]any{
		"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": map[string]any{"name": name, "namespace": theirNamespace},
		"spec": map[string]any{"selector": map[string]any{"matchLabels": labels}, "template": map[string]any{
			"metadata": map[string]any{"labels": labels},
			"spec": map[string]any{
				"nodeSelector": map[string]any{label: "true"},
				"tolerations":  []any{map[string]any{"key": gpuResource, "operator": "Exists", "effect": "NoSchedule"}},
				"containers":   []any{map[string]any{"name": "main", "image": "nvcr.io/nvidia/" + name + ":v1"}},
			},
		}},
	})
}

// ourSets has the DaemonSets of Outrigger, with the values at the start of a migration.
var ourSets = sync.OnceValues(func() ([]map[string]any, error) {
	const file = "testdata/clusterpolicy-26.7.yaml"
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var s migrate.Source
	if err := migrate.Read(file, text, &s); err != nil {
		return nil, err
	}
	p := plan(s, migrate.Options{})
	stages, err := charts.Stages(charts.Release{Name: "outrigger", Namespace: "outrigger", Kubernetes: "v1.36.0", Values: p.Start, Nodes: []charts.Node{{Kernel: "6.8.0-60-generic", ID: "ubuntu", Version: "22.04"}}})
	if err != nil {
		return nil, err
	}
	var sets []map[string]any
	for _, stage := range stages {
		for document := range strings.SplitSeq(stage.Manifest, "\n---\n") {
			o := map[string]any{}
			if err := yaml.Unmarshal([]byte(document), &o); err != nil {
				return nil, err
			}
			if o["kind"] == "DaemonSet" {
				sets = append(sets, o)
			}
		}
	}
	return sets, nil
})

// install creates the DaemonSets of Outrigger.
func (w *world) install() {
	w.Helper()
	sets, err := ourSets()
	if err != nil {
		w.Fatal(err)
	}
	for _, o := range sets {
		w.Create(object(o).DeepCopy())
	}
}

func (w *world) podsOf(namespace, node string) []*corev1.Pod {
	list, err := w.Client.Dynamic.Resource(corev1.SchemeGroupVersion.WithResource("pods")).Namespace(namespace).List(w.Context(), metav1.ListOptions{})
	if err != nil {
		return nil
	}
	var pods []*corev1.Pod
	for i := range list.Items {
		p := &corev1.Pod{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(list.Items[i].Object, p); err == nil && (node == "" || p.Spec.NodeName == node) {
			pods = append(pods, p)
		}
	}
	return pods
}

func (w *world) allReady(namespace string) bool {
	return !slices.ContainsFunc(w.podsOf(namespace, ""), func(p *corev1.Pod) bool { return p.Status.Phase != corev1.PodRunning })
}

// running returns the DaemonSets in a namespace with a pod that runs on a node, sorted.
func (w *world) running(namespace, node string) string {
	var names []string
	for _, p := range w.podsOf(namespace, node) {
		if owner := metav1.GetControllerOf(p); owner != nil && p.Status.Phase == corev1.PodRunning {
			names = append(names, owner.Name)
		}
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

// runner returns a runner that logs to the test.
func (w *world) runner() *migrate.Runner {
	return &migrate.Runner{
		Client: w.Client.Dynamic, Timeout: 2 * time.Minute, Poll: 50 * time.Millisecond, Progress: func(format string, args ...any) { w.Logf(format, args...) },
	}
}

// hand hands a component over.
func (w *world) hand(r *migrate.Runner, name string, undo bool) error {
	w.Helper()
	return w.handUntil(w.Context(), r, name, undo)
}

// handUntil hands a component over, until the context ends.
func (w *world) handUntil(ctx context.Context, r *migrate.Runner, name string, undo bool) error {
	w.Helper()
	c, err := migrate.Named(name)
	if err != nil {
		w.Fatal(err)
	}
	step, err := r.Step(ctx, c, undo)
	if err != nil {
		w.Fatal(err)
	}
	return r.Run(ctx, step)
}

// gpuPod creates a pod with a GPU that runs on a node.
func (w *world) gpuPod(node string) *corev1.Pod {
	w.Helper()
	w.Create(object(map[string]any{
		"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": "training", "namespace": "default"},
		"spec": map[string]any{"nodeName": node, "containers": []any{map[string]any{"name": "main", "image": "x", "resources": map[string]any{"limits": map[string]any{gpuResource: "1"}}}}},
	}))
	return w.training()
}

// training returns the GPU pod, or nil.
func (w *world) training() *corev1.Pod {
	w.Helper()
	for _, p := range w.podsOf("default", "") {
		return p
	}
	return nil
}
