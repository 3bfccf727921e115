package migrate

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"outrigger.dev/pkg/kube"
)

// cordoned is the annotation of a node that a migration has cordoned, and that it uncordons.
const cordoned = "outrigger.dev/cordoned-by-migrate"

// prepareDriver makes nodes ready for the hand-over of their driver: no other component is NVIDIA's, and no pod
// uses a GPU. It evicts GPU pods only with Evict.
func (r *Runner) prepareDriver(ctx context.Context, step Step, nodes []string) error {
	for _, name := range nodes {
		o, err := r.Client.Resource(nodesResource).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return fmt.Errorf("read node %s: %w", name, r.explain(err))
		}
		n, err := typed[corev1.Node](o)
		if err != nil {
			return err
		}
		if n.Labels[step.Component.Label] == step.To {
			continue // an interrupted hand-over has prepared it
		}
		if step.To == Ours {
			if err := r.usesTheirs(ctx, n); err != nil {
				return err
			}
		}
		pods, err := r.gpuPods(ctx, name)
		if err != nil {
			return err
		}
		if len(pods) == 0 && n.Spec.Unschedulable {
			continue
		}
		if err := r.refuse(name, pods); err != nil {
			return err
		}
		if err := r.cordon(ctx, n); err != nil {
			return err
		}
		// The scheduler may have placed a pod before the node was cordoned.
		if pods, err = r.gpuPods(ctx, name); err != nil {
			return err
		}
		if err := r.refuse(name, pods); err != nil {
			return err
		}
		if err := r.evictAll(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

// usesTheirs returns an error if NVIDIA's GPU Operator still has a component on a node that uses its driver. The labels
// alone do not say this: its operator sets them also for components that are disabled.
func (r *Runner) usesTheirs(ctx context.Context, n *corev1.Node) error {
	for _, c := range Components() {
		value := n.Labels[c.Label]
		if c.Name == Driver || value != Theirs && value != Between {
			continue
		}
		s, err := r.observe(ctx, c)
		if err != nil {
			return err
		}
		if len(s.Side(c.Label, Theirs)) > 0 {
			return fmt.Errorf("node %s still has %s of NVIDIA's GPU Operator, which uses its driver: hand it over first with --only %s --yes", n.Name, c.Name, c.Name)
		}
	}
	return nil
}

// refuse returns an error if a node has GPU pods that must not be evicted.
func (r *Runner) refuse(node string, pods []*corev1.Pod) error {
	if len(pods) == 0 || r.Evict {
		return nil
	}
	return fmt.Errorf("node %s has GPU pods, and the driver cannot be changed below them: %s; wait until they end, or evict them with --evict", node, names(podNames(pods)))
}

// gpuPods returns the pods on a node that have a GPU and have not ended.
func (r *Runner) gpuPods(ctx context.Context, node string) ([]*corev1.Pod, error) {
	found, err := r.Client.Resource(podsResource).List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=" + node})
	if err != nil {
		return nil, fmt.Errorf("list the pods of node %s: %w", node, r.explain(err))
	}
	var pods []*corev1.Pod
	for i := range found.Items {
		p, err := typed[corev1.Pod](&found.Items[i])
		if err != nil {
			return nil, err
		}
		if p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed && usesGPU(p) {
			pods = append(pods, p)
		}
	}
	return pods, nil
}

// usesGPU reports whether a pod requests a resource nvidia.com/… or claims devices.
func usesGPU(p *corev1.Pod) bool {
	return len(p.Spec.ResourceClaims) > 0 || slices.ContainsFunc(slices.Concat(p.Spec.InitContainers, p.Spec.Containers), func(c corev1.Container) bool {
		return len(gpus(c.Resources.Limits)) > 0 || len(gpus(c.Resources.Requests)) > 0
	})
}

func podNames(pods []*corev1.Pod) []string {
	all := make([]string, len(pods))
	for i, p := range pods {
		all[i] = p.Namespace + "/" + p.Name
	}
	return all
}

// cordon cordons a node, unless it is cordoned.
func (r *Runner) cordon(ctx context.Context, n *corev1.Node) error {
	if n.Spec.Unschedulable {
		return nil
	}
	ops := []map[string]any{{"op": "add", "path": "/spec/unschedulable", "value": true}}
	if len(n.Annotations) == 0 {
		ops = append(ops, map[string]any{"op": "add", "path": "/metadata/annotations", "value": map[string]any{}})
	}
	ops = append(ops, map[string]any{"op": "add", "path": kube.AnnotationPath(cordoned), "value": "true"})
	r.Progress("%s: cordons %s", Driver, n.Name)
	return r.patch(ctx, n.Name, ops)
}

// uncordon uncordons the nodes that a migration has cordoned.
func (r *Runner) uncordon(ctx context.Context, c Component, nodes []string) error {
	if c.Name != Driver {
		return nil
	}
	for _, name := range nodes {
		o, err := r.Client.Resource(nodesResource).Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return fmt.Errorf("read node %s: %w", name, r.explain(err))
		}
		if o.GetAnnotations()[cordoned] == "" {
			continue
		}
		ops := []map[string]any{{"op": "remove", "path": kube.AnnotationPath(cordoned)}}
		if on, _, _ := unstructured.NestedBool(o.Object, "spec", "unschedulable"); on {
			ops = append(ops, map[string]any{"op": "remove", "path": "/spec/unschedulable"})
		}
		r.Progress("%s: uncordons %s", Driver, name)
		if err := r.patch(ctx, name, ops); err != nil {
			return err
		}
	}
	return nil
}

// evictAll evicts the GPU pods of a node, and waits until they are gone. A PodDisruptionBudget may delay an eviction.
func (r *Runner) evictAll(ctx context.Context, node string) error {
	deadline := time.Now().Add(r.Timeout)
	tick := time.NewTicker(r.Poll)
	defer tick.Stop()
	for {
		pods, err := r.gpuPods(ctx, node)
		if err != nil || len(pods) == 0 {
			return err
		}
		var refused []string
		for _, p := range pods {
			if p.DeletionTimestamp != nil {
				continue
			}
			err := r.evict(ctx, p)
			if denied(err) {
				return err
			}
			if err != nil {
				refused = append(refused, err.Error())
			}
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("evict the GPU pods of node %s: not within %s: %s", node, r.Timeout, strings.Join(first(append(refused, podNames(pods)...)), "; "))
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}

// evict asks the API server to evict a pod.
func (r *Runner) evict(ctx context.Context, p *corev1.Pod) error {
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&policyv1.Eviction{
		TypeMeta:   metav1.TypeMeta{APIVersion: "policy/v1", Kind: "Eviction"},
		ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name},
	})
	if err != nil {
		return err
	}
	r.Progress("%s: evicts %s/%s", Driver, p.Namespace, p.Name)
	_, err = r.Client.Resource(podsResource).Namespace(p.Namespace).Create(ctx, &unstructured.Unstructured{Object: object}, metav1.CreateOptions{}, "eviction")
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("evict pod %s/%s: %w", p.Namespace, p.Name, r.explain(err))
	}
	return nil
}
