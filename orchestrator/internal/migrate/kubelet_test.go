package migrate_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"outrigger.dev/orchestrator/internal/migrate"
)

// kubelets does what the scheduler, the kubelets and the device plugins do. A plugin registers before its pod is ready.
func (w *world) kubelets(ctx context.Context) error {
	pods := w.podsOf("", "") //nolint:contextcheck // it has the context of the test
	if err := w.report(ctx, pods); err != nil {
		return err
	}
	for _, p := range pods {
		if owner := metav1.GetControllerOf(p); owner != nil {
			if err := w.kubelet(ctx, p, p.Namespace+"/"+owner.Name); err != nil {
				return err
			}
		}
	}
	return nil
}

// report sets the GPUs that each node offers, and records nodes with pods of both sides.
func (w *world) report(ctx context.Context, pods []*corev1.Pod) error {
	w.mu.Lock()
	plugins, sides := map[string]int{}, map[string]string{}
	for _, p := range pods {
		i := slices.IndexFunc(migrate.Components(), func(c migrate.Component) bool { return p.Spec.NodeSelector[c.Label] != "" })
		if i < 0 || p.Spec.NodeName == "" {
			continue
		}
		component := migrate.Components()[i].Name
		key := p.Spec.NodeName + " " + component
		if side, is := sides[key]; is && side != p.Namespace {
			w.overlaps = append(w.overlaps, key)
		}
		sides[key] = p.Namespace
		if component == "device-plugin" && p.DeletionTimestamp == nil {
			plugins[p.Spec.NodeName] = w.offers[p.Namespace]
		}
	}
	silent := w.silent
	w.mu.Unlock()
	if silent {
		return nil
	}
	for _, name := range w.nodes {
		patch, err := json.Marshal(map[string]any{"status": map[string]any{"allocatable": map[string]any{gpuResource: fmt.Sprint(plugins[name])}}})
		if err != nil {
			return err
		}
		if _, err := w.Client.Dynamic.Resource(corev1.SchemeGroupVersion.WithResource("nodes")).Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{}, "status"); err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	return nil
}

// kubelet does what the kubelet does with one pod.
func (w *world) kubelet(ctx context.Context, p *corev1.Pod, set string) error {
	w.mu.Lock()
	broken, held := w.broken[set] || w.broken[set+" "+p.Spec.NodeName], w.held[set] || w.held[set+" "+p.Spec.NodeName]
	w.mu.Unlock()
	pods := w.Client.Dynamic.Resource(corev1.SchemeGroupVersion.WithResource("pods")).Namespace(p.Namespace)
	switch {
	case p.DeletionTimestamp != nil && held, p.Status.Phase == corev1.PodRunning && p.DeletionTimestamp == nil, broken && len(p.Status.ContainerStatuses) > 0 && p.DeletionTimestamp == nil:
		return nil
	case p.DeletionTimestamp != nil:
		now := int64(0)
		return pods.Delete(ctx, p.Name, metav1.DeleteOptions{GracePeriodSeconds: &now})
	case p.Spec.NodeName == "":
		node := p.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0].MatchFields[0].Values[0]
		_, err := pods.Create(ctx, object(map[string]any{
			"apiVersion": "v1", "kind": "Binding", "metadata": map[string]any{"name": p.Name, "namespace": p.Namespace},
			"target": map[string]any{"apiVersion": "v1", "kind": "Node", "name": node},
		}), metav1.CreateOptions{}, "binding")
		return err
	}
	status := map[string]any{"phase": "Running", "conditions": []any{map[string]any{"type": "Ready", "status": "True"}}}
	if broken {
		status = map[string]any{"phase": "Pending", "containerStatuses": []any{map[string]any{
			"name": p.Spec.Containers[0].Name, "image": "x", "imageID": "", "ready": false, "restartCount": 3,
			"state": map[string]any{"waiting": map[string]any{"reason": "CrashLoopBackOff", "message": "back-off"}},
		}}}
	}
	patch, err := json.Marshal(map[string]any{"status": status})
	if err != nil {
		return err
	}
	_, err = pods.Patch(ctx, p.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	return err
}

// endPod ends a pod as its kubelet does.
func (w *world) endPod(p *corev1.Pod) {
	now := int64(0)
	_ = w.Client.Dynamic.Resource(corev1.SchemeGroupVersion.WithResource("pods")).Namespace(p.Namespace).Delete(w.Context(), p.Name, metav1.DeleteOptions{GracePeriodSeconds: &now})
}
