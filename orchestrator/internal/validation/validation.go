// Package validation derives the validation pods to create and to remove, and the results of
// validations. A validation proves on some nodes that a stage works. The package does no I/O.
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
	// LabelCheck is the label with the name of the check.
	LabelCheck = "outrigger.dev/validation"
	// LabelRevision is the label with Check.Revision. It distinguishes the pods of a run from pods
	// of earlier runs.
	LabelRevision = "outrigger.dev/of"
)

// The values of ValidationStatus.State.
const (
	// Running: the check has no result yet.
	Running = "Running"
	// Passed: the check has passed on at least one node.
	Passed = "Passed"
	// Failed: the check has failed on a node, and has not passed on any node.
	Failed = "Failed"
	// Skipped: the check could not run on any node, for a reason that is not a fault.
	Skipped = "Skipped"
)

const (
	// maxActive is the maximum number of pods of a check at a time.
	maxActive = 32
	// retryAfter is the delay before a failed or skipped run is repeated.
	retryAfter = 10 * time.Minute
)

// Next returns the result of a check so far, the pods to create, the pods to remove, and the delay
// until the next call if the cluster does not change, or 0. last is the result of the last call,
// and may be zero. A pod to create may already exist if State is outdated.
//
// A run with a result is repeated if Check.Revision changes. A run that has not passed is also
// repeated after retryAfter. A check of all nodes also runs on nodes that are new or have rebooted.
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
		if now.State == Running && now.Revision == "" {
			now.Failed = max(now.Failed, last.Failed) // a repetition does not end the failure
		}
	}
	return now, r.create, r.remove, r.again
}

// addNodes continues a check of all nodes after its first result: it creates pods for nodes that
// are new or have rebooted. The result stays during that time, so that these nodes do not delay the
// stages.
func (r *run) addNodes(now *model.ValidationStatus) {
	r.drop(r.rebooted)
	skipped := now.Skipped
	// A skipped node has no pod, so it looks like a new node.
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

// conclude sets the state of a run. The run ends when all of its pods have ended.
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

// removeSkipped removes pods that wait for a GPU. Otherwise they would take the GPU of a user's pod
// that ends.
func (r *run) removeSkipped() {
	for _, p := range r.pods {
		if p.state == Skipped && p.Phase == string(corev1.PodPending) {
			r.delete(p.Pod)
		}
	}
}

// message returns why a run waits, or which nodes have not passed.
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
