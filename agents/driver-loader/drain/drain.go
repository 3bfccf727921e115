// Package drain evicts pods of a node with kubectl's drain package. It is all of the program
// driver-loader-drain, which runs during the upgrade of a node only: client-go's types cost
// more memory than the agent.
//
// Its service account needs the verbs list and get on pods, create on pods/eviction, and get on
// daemonsets and resourceclaims, in all namespaces.
package drain

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/kubectl/pkg/drain"

	"outrigger.dev/agents/driver-loader/internal/eviction"
	"outrigger.dev/agents/driver-loader/internal/upgrade"
)

// The failures that have exit codes of their own.
var (
	errTimeout = errors.New("pods are left at the end of the time-out")
	errRefused = errors.New("pods may not be evicted")
)

// pageSize is how many pods are listed with one request.
const pageSize = 100

// again is the time after which the node is looked at again when all pods are gone.
const again = time.Second

// drainer is one run.
type drainer struct {
	client  kubernetes.Interface
	request eviction.Request
	report  *reporter
	// retry is the time after which a rejected eviction, or a look at pods, is repeated.
	retry time.Duration
}

// run does what the request asks for.
func (d *drainer) run(ctx context.Context) error {
	if d.request.TimeoutSeconds > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, time.Duration(d.request.TimeoutSeconds)*time.Second, errTimeout)
		defer cancel()
	}
	step, every := d.evict, min(d.retry, again)
	if d.request.Mode == eviction.Await {
		step, every = d.await, d.retry
	}
	err := wait.PollUntilContextCancel(ctx, every, true, func(ctx context.Context) (bool, error) {
		left, err := step(ctx)
		return left == 0, err
	})
	if errors.Is(context.Cause(ctx), errTimeout) {
		return errTimeout
	}
	return err
}

// await returns how many of the pods have not ended.
func (d *drainer) await(ctx context.Context) (int, error) {
	pods, err := d.list(ctx)
	if err != nil {
		return 0, err
	}
	left := 0
	for _, pod := range pods {
		if !ended(pod) {
			d.report.line(eviction.Running, pod, "")
			left++
		}
	}
	return left, nil
}

// evict evicts the pods that are there now, and returns how many those were: there may be
// more, which were bound to the node before it was cordoned.
func (d *drainer) evict(ctx context.Context) (int, error) {
	pods, err := d.choose(ctx)
	if err != nil || len(pods) == 0 {
		return 0, err
	}
	helper := d.helper(ctx)
	helper.Client = newWatched(d.client, pods, d.report.rejected)
	version, err := drain.CheckEvictionSupport(d.client)
	if err == nil && version.Empty() {
		err = errors.New("the API server knows no evictions, and to delete pods would ignore PodDisruptionBudgets")
	}
	if err == nil {
		err = helper.DeleteOrEvictPods(pods)
	}
	if err != nil {
		return 0, fmt.Errorf("evict pods: %w", err)
	}
	return len(pods), nil
}

// choose returns the pods to evict, or none and an error if one of them may not be evicted.
func (d *drainer) choose(ctx context.Context) ([]corev1.Pod, error) {
	pods, err := d.list(ctx)
	if err != nil {
		return nil, err
	}
	var chosen []corev1.Pod
	refused := false
	for _, pod := range pods {
		wanted, err := d.wanted(ctx, pod)
		if err != nil {
			return nil, err
		}
		if !wanted {
			continue
		}
		switch why, stays := d.judge(ctx, pod); {
		case !stays:
			chosen = append(chosen, pod)
		case d.request.Mode == eviction.AllPods && why.mayStay:
			d.report.line(eviction.Left, pod, why.text)
		default:
			d.report.line(eviction.Refused, pod, why.text)
			refused = true
		}
	}
	if refused {
		return nil, errRefused
	}
	return chosen, nil
}

// wanted reports whether the request is about a pod.
func (d *drainer) wanted(ctx context.Context, pod corev1.Pod) (bool, error) {
	if ended(pod) {
		return false, nil
	}
	if d.request.Mode == eviction.GPUPods {
		if holds, err := d.holdsGPU(ctx, pod); err != nil || !holds {
			return false, err
		}
	}
	if pod.Labels[upgrade.PodSkipLabel] == "true" {
		d.report.line(eviction.Left, pod, "it has the label "+upgrade.PodSkipLabel+"=true")
		return false, nil
	}
	return true, nil
}

// staying is why a pod stays. mayStay is set for those that no drain evicts.
type staying struct {
	text    string
	mayStay bool
}

// judge asks kubectl's drain package whether a pod stays.
func (d *drainer) judge(ctx context.Context, pod corev1.Pod) (staying, bool) {
	helper := d.helper(ctx)
	helper.Client = only{d.client, []corev1.Pod{pod}}
	list, errs := helper.GetPodsForDeletion(d.request.Node)
	switch {
	case len(errs) > 0:
		text, _, _ := strings.Cut(strings.TrimPrefix(errors.Join(errs...).Error(), "cannot delete "), ": "+pod.Namespace+"/")
		return staying{text: inOurTerms(text)}, true
	case len(list.Pods()) > 0:
		return staying{}, false
	case list.Warnings() != "":
		return staying{text: "it belongs to a DaemonSet, which would create it again", mayStay: true}, true
	default:
		return staying{text: "it is a static pod of the kubelet", mayStay: true}, true
	}
}

// inOurTerms replaces flags of kubectl by the keys of the upgrade policy.
func inOurTerms(text string) string {
	return strings.NewReplacer(
		"use --force to override", "set force in upgradePolicy to evict it nevertheless",
		"use --delete-emptydir-data to override", "set deleteEmptyDir in upgradePolicy to evict it nevertheless",
	).Replace(text)
}

func (d *drainer) helper(ctx context.Context) *drain.Helper {
	return &drain.Helper{
		Ctx: ctx, Client: d.client, Force: d.request.Force, DeleteEmptyDirData: d.request.DeleteEmptyDir,
		GracePeriodSeconds: -1, // that of the pod
		Timeout:            time.Duration(d.request.TimeoutSeconds) * time.Second, IgnoreAllDaemonSets: true,
		EvictErrorRetryDelay: d.retry, Out: io.Discard, ErrOut: io.Discard,
		OnPodDeletionOrEvictionStarted:  d.report.started,
		OnPodDeletionOrEvictionFinished: d.report.finished,
	}
}

// list returns the pods of the node that the selector selects.
func (d *drainer) list(ctx context.Context) ([]corev1.Pod, error) {
	options := metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("spec.nodeName", d.request.Node).String(), Limit: pageSize,
	}
	if d.request.Mode != eviction.GPUPods {
		options.LabelSelector = d.request.PodSelector
	}
	var all []corev1.Pod
	for {
		page, err := d.client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, options)
		if err != nil {
			return nil, fmt.Errorf("list the pods of node %s: %w", d.request.Node, err)
		}
		all = append(all, page.Items...)
		if options.Continue = page.Continue; options.Continue == "" {
			break
		}
	}
	slices.SortFunc(all, func(a, b corev1.Pod) int { return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name) })
	return all, nil
}

func ended(pod corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// check says what is wrong with a request.
func check(r eviction.Request) error {
	switch r.Mode {
	case eviction.Await, eviction.GPUPods, eviction.AllPods:
	default:
		return fmt.Errorf("the mode is %q: use %s, %s or %s", r.Mode, eviction.Await, eviction.GPUPods, eviction.AllPods)
	}
	if _, err := labels.Parse(r.PodSelector); err != nil {
		return fmt.Errorf("podSelector %q is no label selector: %w", r.PodSelector, err)
	}
	switch {
	case r.Node == "":
		return errors.New("the request has no node")
	case r.Mode == eviction.Await && r.PodSelector == "":
		return errors.New("podSelector is empty: all pods of a node never end")
	case r.TimeoutSeconds < 0:
		return fmt.Errorf("timeoutSeconds is %d: use 0 or more", r.TimeoutSeconds)
	}
	return nil
}
