// Package eviction evicts the pods of a node through the Eviction API (policy/v1), as "kubectl
// drain" does: it respects PodDisruptionBudgets and the grace periods of pods, and does not delete
// pods in any other way.
//
// The caller's role needs, in all namespaces, the verbs get and list on pods, and create on
// pods/eviction.
package eviction

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"outrigger.dev/pkg/kube"
)

// Pod has the fields of a pod that decide about its eviction, and the fields that show whether it
// holds a device.
type Pod struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		NodeName string `json:"nodeName"`
		Volumes  []struct {
			EmptyDir *struct{} `json:"emptyDir"`
		} `json:"volumes"`
		InitContainers []Container `json:"initContainers"`
		Containers     []Container `json:"containers"`
		ResourceClaims []Claim     `json:"resourceClaims"`
	} `json:"spec"`
	Status struct {
		Phase string `json:"phase"`
		// ResourceClaimStatuses names the claims that were created for the pod.
		ResourceClaimStatuses []Claim `json:"resourceClaimStatuses"`
	} `json:"status"`
}

// Container has the quantities of resources that a container requests, such as "8".
type Container struct {
	Resources struct {
		Requests map[string]string `json:"requests"`
		Limits   map[string]string `json:"limits"`
	} `json:"resources"`
}

// Claim refers to a ResourceClaim of the pod. ResourceClaimName is empty for a claim from a
// template.
type Claim struct {
	Name              string `json:"name"`
	ResourceClaimName string `json:"resourceClaimName"`
}

// mirror is the annotation of a pod that the kubelet runs from a file (k8s.io/api/core/v1,
// MirrorPodAnnotationKey). budgetCause is the type of the cause that names a PodDisruptionBudget in
// an answer (k8s.io/api/policy/v1, DisruptionBudgetCause).
const (
	mirror      = "kubernetes.io/config.mirror"
	budgetCause = "DisruptionBudget"
)

// page is the number of pods in one list request. A pod with many sidecars has 50 KiB or more.
const page = 20

// Pods returns the pods of the client's node that match a label selector, sorted by namespace and
// name. An empty selector matches all.
func Pods(ctx context.Context, c *kube.Client, selector string) ([]Pod, error) {
	node := c.Node().Name
	all, err := kube.List[Pod](ctx, c, kube.Query{Object: kube.Object{API: "v1", Resource: "pods"}, FieldSelector: "spec.nodeName=" + node, LabelSelector: selector, Page: page})
	if err != nil {
		return nil, fmt.Errorf("list the pods of node %s: %w", node, err)
	}
	slices.SortFunc(all, func(a, b Pod) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return all, nil
}

// Ended reports whether a pod has ended and no longer uses its node.
func Ended(p *Pod) bool {
	return p.Status.Phase == "Succeeded" || p.Status.Phase == "Failed"
}

// Obstacle is the reason why a pod is not evicted, as a text that can follow "because".
type Obstacle string

// The obstacles, and None.
const (
	None Obstacle = ""
	// Static and OfDaemonSet mean that the pod returns to the node after an eviction, even if the
	// node is cordoned.
	Static      Obstacle = "it is a static pod of the kubelet"
	OfDaemonSet Obstacle = "it belongs to a DaemonSet, which would create it again"
	// LocalData and NoController are obstacles that Options can remove.
	LocalData    Obstacle = "its emptyDir volumes would be lost"
	NoController Obstacle = "it has no controller that would create it again"
)

// Returns reports whether the pod returns to the node after an eviction.
func (o Obstacle) Returns() bool { return o == Static || o == OfDaemonSet }

// Options selects pods to evict that "kubectl drain" does not evict by default.
type Options struct {
	// Force evicts pods without a controller.
	Force bool
	// DeleteEmptyDir evicts pods that lose the data of an emptyDir.
	DeleteEmptyDir bool
}

// Obstacle returns the reason why a pod that has not ended is not evicted.
func (o Options) Obstacle(p *Pod) Obstacle {
	controller := metav1.GetControllerOfNoCopy(p)
	_, static := p.Annotations[mirror]
	local := false
	for _, v := range p.Spec.Volumes {
		local = local || v.EmptyDir != nil
	}
	switch {
	case static:
		return Static
	case controller != nil && controller.Kind == "DaemonSet":
		return OfDaemonSet
	case local && !o.DeleteEmptyDir:
		return LocalData
	case controller == nil && !o.Force:
		return NoController
	default:
		return None
	}
}

// Blocked is an eviction that is not allowed now, but may be allowed later.
type Blocked struct {
	// Budget is the PodDisruptionBudget in the namespace of the pod. It is empty if the API server
	// does not name one.
	Budget string
	// Text is the message of the API server.
	Text string
}

// Error returns the text.
func (b *Blocked) Error() string { return b.Text }

// Evict asks the API server to evict a pod that the caller has read. It does not wait for the end
// of the pod. It returns nil if the pod no longer exists, even if another pod has its name, because
// that pod may be on another node. If the API server does not permit the eviction now, the error is
// a *Blocked.
func Evict(ctx context.Context, c *kube.Client, p *Pod) error {
	of := kube.Object{API: "v1", Resource: "pods", Namespace: p.Namespace, Name: p.Name, Subresource: "eviction"}
	err := c.Create(ctx, of, map[string]any{
		"apiVersion": "policy/v1", "kind": "Eviction",
		"metadata":      map[string]any{"namespace": p.Namespace, "name": p.Name},
		"deleteOptions": map[string]any{"preconditions": map[string]any{"uid": p.UID}},
	})
	switch {
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		return nil
	case apierrors.IsTooManyRequests(err):
		return blocked(err)
	case err != nil:
		return fmt.Errorf("evict pod %s/%s: %w", p.Namespace, p.Name, err)
	}
	return nil
}

// blocked converts the answer to an eviction that the API server does not allow now.
func blocked(err error) *Blocked {
	b := &Blocked{Text: err.Error()}
	status, is := errors.AsType[*apierrors.StatusError](err)
	if !is || status.ErrStatus.Details == nil {
		return b
	}
	for _, c := range status.ErrStatus.Details.Causes {
		if c.Type != budgetCause {
			continue
		}
		b.Text = c.Message
		if rest, is := strings.CutPrefix(c.Message, "The disruption budget "); is {
			b.Budget, _, _ = strings.Cut(rest, " ")
		}
	}
	return b
}
