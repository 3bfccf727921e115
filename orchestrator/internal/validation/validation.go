// Package validation decides which validation pods to create and to remove, and what they
// have shown. A validation proves on some nodes that what a stage has installed works. The
// package does no I/O.
package validation

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"outrigger.dev/orchestrator/internal/model"
)

// Labels of validation pods.
const (
	// LabelCheck has the name of the check.
	LabelCheck = "outrigger.dev/validation"
	// LabelRevision has Check.Of, by which the pods of a run are told from those of earlier runs.
	LabelRevision = "outrigger.dev/of"
)

// The values of ValidationStatus.State.
const (
	// Running: it has no result yet.
	Running = "Running"
	// Passed: it has passed on at least one node.
	Passed = "Passed"
	// Failed: it has failed on a node, and passed on none.
	Failed = "Failed"
	// Skipped: it could run on no node, for a reason that is no fault.
	Skipped = "Skipped"
)

const (
	// maxActive is how many pods of a check run at once.
	maxActive = 32
	// retryAfter is when a run that has failed, or was skipped, is repeated.
	retryAfter = 10 * time.Minute
)

// Next returns what a check has shown, and what to do next: the pods to create, the pods to
// remove, and when to look again without a change in the cluster, or 0. last is what the last
// call returned; it may be zero. A pod to create may exist already if State is behind.
//
// A run with a result is repeated if Check.Of changes, and after a while if it has not
// passed. A check of all nodes also runs on nodes that are new, or that have rebooted.
func Next(c model.Check, s model.State, last model.ValidationStatus) (
	now model.ValidationStatus, create []*unstructured.Unstructured, remove []model.Seen, again time.Duration,
) {
	r := newRun(c, s)
	now = last
	now.Name = c.Name
	ended := last.State != Running && last.Revision == c.Revision && last.Time != nil
	if ended && (last.State != Passed || last.Failed+last.Skipped > 0) {
		if wait := last.Time.Add(retryAfter).Sub(s.Now); wait > 0 {
			r.lookAfter(wait)
		} else {
			r.drop(func(p judged) bool { return p.state == Failed || p.state == Skipped })
			now.Skipped, now.Time = 0, &metav1.Time{Time: s.Now}
			if ended = c.Nodes == allNodes && last.Passed > 0; !ended {
				now.Revision = ""
			}
		}
	}
	switch {
	case ended && c.Nodes == allNodes:
		r.addNodes(&now)
	case !ended:
		r.start(now.Time)
		r.count(&now)
		r.conclude(&now)
	}
	return now, r.create, r.remove, r.again
}

// addNodes keeps a check of all nodes up to date once it has a result: nodes that are new,
// or have rebooted, get a pod. The result stays meanwhile, so that they hold nothing up.
func (r *run) addNodes(now *model.ValidationStatus) {
	r.drop(r.rebooted)
	skipped := now.Skipped
	// A skipped node has no pod, so that it cannot be told from a new one.
	if skipped == 0 {
		r.start(now.Time)
	}
	r.count(now)
	now.Skipped = max(now.Skipped, skipped)
	if r.n[Passed]+r.n[Failed] > 0 {
		now.State = r.verdict()
		now.Message = r.message(now.State)
	}
	if r.n[Running] == 0 {
		r.removeSkipped()
	}
}

// count sets the counts of a status from the pods.
func (r *run) count(now *model.ValidationStatus) {
	now.Passed, now.Failed, now.Skipped = r.n[Passed], r.n[Failed], r.n[Skipped]
}

// verdict returns the state of a run whose pods have ended.
func (r *run) verdict() string {
	switch {
	case r.n[Passed] > 0:
		return Passed
	case r.n[Failed] > 0:
		return Failed
	default:
		return Skipped
	}
}

// conclude sets the state of a run, which ends once no pod is left to wait for.
func (r *run) conclude(now *model.ValidationStatus) {
	if r.n[Running] > 0 || len(r.pods) == 0 || r.left > 0 {
		now.State, now.Message = Running, r.message(Running)
		return
	}
	now.State = r.verdict()
	now.Message = r.message(now.State)
	now.Revision, now.Time = r.c.Revision, &metav1.Time{Time: r.s.Now}
	if now.State != Passed || now.Failed+now.Skipped > 0 {
		r.lookAfter(retryAfter)
	}
	r.removeSkipped()
}

// removeSkipped removes pods that wait for a GPU, which they would take as soon as a user's
// pod ends.
func (r *run) removeSkipped() {
	for _, p := range r.pods {
		if p.state == Skipped && p.Phase == string(corev1.PodPending) {
			r.delete(p.Pod)
		}
	}
}

// message says what a run waits for, or which nodes have not passed.
func (r *run) message(state string) string {
	want := state
	if state == Passed {
		want = Failed
		if r.n[Failed] == 0 {
			want = Skipped
		}
	}
	first, n := "", 0
	for _, p := range r.pods {
		if p.state == want && p.text != "" {
			if n++; n == 1 {
				first = p.text
			}
		}
	}
	switch {
	case n > 1:
		return fmt.Sprintf("%s (and %d more nodes)", first, n-1)
	case n == 0 && state == Running && len(r.pods)+len(r.create)+len(r.remove) == 0:
		if r.invalid != nil {
			return r.invalid.Error()
		}
		return "waits for a node that is ready and has a GPU"
	default:
		return first
	}
}
