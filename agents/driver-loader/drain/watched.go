package drain

import (
	"context"
	"errors"
	"strings"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	typedcore "k8s.io/client-go/kubernetes/typed/core/v1"
	typedpolicy "k8s.io/client-go/kubernetes/typed/policy/v1"
)

// only is a client for kubectl's drain package that lists the given pods alone, so that the
// package judges pods that are chosen already.
type only struct {
	kubernetes.Interface
	pods []corev1.Pod
}

func (o only) CoreV1() typedcore.CoreV1Interface { return onlyCore{o.Interface.CoreV1(), o.pods} }

type onlyCore struct {
	typedcore.CoreV1Interface
	pods []corev1.Pod
}

func (o onlyCore) Pods(namespace string) typedcore.PodInterface {
	return onlyPods{o.CoreV1Interface.Pods(namespace), o.pods}
}

type onlyPods struct {
	typedcore.PodInterface
	pods []corev1.Pod
}

func (o onlyPods) List(context.Context, metav1.ListOptions) (*corev1.PodList, error) {
	return &corev1.PodList{Items: o.pods}, nil
}

// watched is a client that evicts the given pods, and no pods that have got their names since: those
// may be on other nodes. It reports why evictions are rejected. kubectl's drain package evicts by
// name, and writes rejections as text, without the name of the PodDisruptionBudget.
type watched struct {
	kubernetes.Interface
	uids     map[types.NamespacedName]types.UID
	rejected func(namespace, pod string, err error)
}

func newWatched(client kubernetes.Interface, pods []corev1.Pod, rejected func(namespace, pod string, err error)) watched {
	uids := map[types.NamespacedName]types.UID{}
	for _, pod := range pods {
		uids[types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}] = pod.UID
	}
	return watched{client, uids, rejected}
}

func (w watched) PolicyV1() typedpolicy.PolicyV1Interface {
	return watchedPolicy{w.Interface.PolicyV1(), w}
}

type watchedPolicy struct {
	typedpolicy.PolicyV1Interface
	watched watched
}

func (w watchedPolicy) Evictions(namespace string) typedpolicy.EvictionInterface {
	return watchedEvictions{w.PolicyV1Interface.Evictions(namespace), w.watched}
}

type watchedEvictions struct {
	typedpolicy.EvictionInterface
	watched watched
}

func (w watchedEvictions) Evict(ctx context.Context, e *policyv1.Eviction) error {
	uid := w.watched.uids[types.NamespacedName{Namespace: e.Namespace, Name: e.Name}]
	e.DeleteOptions = metav1.NewPreconditionDeleteOptions(string(uid))
	err := w.EvictionInterface.Evict(ctx, e)
	switch {
	case apierrors.IsTooManyRequests(err):
		w.watched.rejected(e.Namespace, e.Name, err)
	case apierrors.IsConflict(err):
		return apierrors.NewNotFound(corev1.Resource("pods"), e.Name)
	}
	return err
}

// budget returns the PodDisruptionBudget that an eviction was rejected for, and why, in the
// words of the API server.
func budget(err error) (name, text string) {
	text = err.Error()
	status, is := errors.AsType[*apierrors.StatusError](err)
	if !is || status.ErrStatus.Details == nil {
		return "", text
	}
	for _, c := range status.ErrStatus.Details.Causes {
		if c.Type != policyv1.DisruptionBudgetCause {
			continue
		}
		text = c.Message
		if rest, is := strings.CutPrefix(c.Message, "The disruption budget "); is {
			name, _, _ = strings.Cut(rest, " ")
		}
	}
	return name, text
}
