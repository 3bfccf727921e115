package app_test

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"outrigger.dev/orchestrator/internal/model"
	"outrigger.dev/pkg/pace"
)

func podsOf(client dynamic.Interface, namespace string) dynamic.ResourceInterface {
	return client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "pods"}).Namespace(namespace)
}

// gpuNode adds a node that has a GPU, and whose kubelet runs each pod with success.
func (w *world) gpuNode(name string) {
	w.Helper()
	w.Create(&unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Node",
		"metadata": map[string]any{"name": name, "labels": map[string]any{"nvidia.com/gpu.present": "true", "kubernetes.io/os": "linux"}},
	}})
	ref := model.Ref{APIVersion: "v1", Kind: "Node", Name: name}
	status := map[string]any{
		"capacity": map[string]any{"nvidia.com/gpu": "1", "pods": "110"}, "allocatable": map[string]any{"nvidia.com/gpu": "1", "pods": "110"},
		"conditions": []any{map[string]any{"type": "Ready", "status": "True", "reason": "KubeletReady"}},
	}
	w.Patch(ref, "status", map[string]any{"status": status})
	// Admission adds the taint of a node that is not ready.
	w.Patch(ref, "", map[string]any{"spec": map[string]any{"taints": nil}})
	ctx, cancel := context.WithCancel(w.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for pace.Pause(ctx, 50*time.Millisecond) {
			// What fails now is tried again.
			_ = runPods(ctx, w.Client.Dynamic, name)
		}
	}()
	w.Cleanup(func() { cancel(); <-ended })
}

// runPods does what the scheduler and the kubelet of the only node do.
func runPods(ctx context.Context, client dynamic.Interface, node string) error {
	list, err := podsOf(client, metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range list.Items {
		if err := runPod(ctx, podsOf(client, list.Items[i].GetNamespace()), &list.Items[i], node); err != nil {
			return err
		}
	}
	return nil
}

func runPod(ctx context.Context, pods dynamic.ResourceInterface, pod *unstructured.Unstructured, node string) error {
	bound, _, _ := unstructured.NestedString(pod.Object, "spec", "nodeName")
	phase, _, _ := unstructured.NestedString(pod.Object, "status", "phase")
	switch {
	case pod.GetDeletionTimestamp() != nil:
		now := int64(0)
		return pods.Delete(ctx, pod.GetName(), metav1.DeleteOptions{GracePeriodSeconds: &now})
	case bound == "":
		_, err := pods.Create(ctx, &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": "Binding", "metadata": map[string]any{"name": pod.GetName(), "namespace": pod.GetNamespace()},
			"target": map[string]any{"apiVersion": "v1", "kind": "Node", "name": node},
		}}, metav1.CreateOptions{}, "binding")
		return err
	case slices.Contains([]string{"Running", "Succeeded"}, phase):
		return nil
	}
	status := map[string]any{"phase": "Succeeded"}
	if metav1.GetControllerOf(pod) != nil {
		status = map[string]any{"phase": "Running", "conditions": []any{map[string]any{
			"type": "Ready", "status": "True", "lastTransitionTime": time.Now().UTC().Format(time.RFC3339),
		}}}
	}
	patch, err := json.Marshal(map[string]any{"status": status})
	if err != nil {
		return err
	}
	_, err = pods.Patch(ctx, pod.GetName(), types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	return err
}
