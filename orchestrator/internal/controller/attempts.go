package controller

import (
	"fmt"
	"time"

	"outrigger.dev/orchestrator/internal/model"
	"outrigger.dev/pkg/pace"
)

// immediateRepairs is the number of repairs of an object without a pause.
const immediateRepairs = 2

// attempts has the last write of each applied object, and of each object whose write failed. A write is repeated after
// growing pauses if it fails, or if another program undoes it each time.
type attempts map[model.Ref]*attempt

type attempt struct {
	// write has the verb and the hash of the content.
	write  string
	failed bool
	// times is the number of attempts in a row.
	times   int
	backoff pace.Backoff
	// nextAt is the earliest time of the next attempt.
	nextAt time.Time
	// why is the error, or the reason why the object differs from its desired state until nextAt. It is empty if no
	// program changed the object.
	why string
}

// record records an attempt, and returns it.
func (a attempts) record(r model.Ref, write string, now time.Time, failed bool) *attempt {
	x := a[r]
	if x == nil || x.write != write || x.failed != failed || now.Sub(x.nextAt) > maxRetry {
		x = &attempt{write: write, failed: failed, backoff: pace.Backoff{First: firstRetry, Most: maxRetry}}
		a[r] = x
	}
	x.nextAt = now
	if x.times++; failed || x.times > 1+immediateRepairs {
		x.nextAt = now.Add(x.backoff.Next())
	}
	return x
}

// postponed reports whether it is too early for a write.
func (a attempts) postponed(r model.Ref, write string, now time.Time) bool {
	x := a[r]
	return x != nil && x.write == write && now.Before(x.nextAt)
}

// observe finds the objects that another program changed or deleted again after their repair. It adds the reasons, and the
// errors of writes, to the failures of the state.
func (a attempts) observe(s model.State) {
	for ref, x := range a {
		seen, there := s.Objects[ref]
		undone := !there || seen.Drifted
		switch {
		case x.failed:
		case !undone && !s.Now.Before(x.nextAt):
			x.why = ""
		case undone && s.Now.Before(x.nextAt):
			x.why = fmt.Sprintf("%s: %s each time after it was applied: let only one program manage it; it is applied again after pauses of up to %s", ref, undoneBy(seen, there), maxRetry)
		}
		if x.why != "" {
			s.Failures[ref] = x.why
		}
	}
}

func undoneBy(seen model.Seen, there bool) string {
	switch {
	case !there:
		return "somebody deletes it"
	case seen.Owner == "":
		return "somebody changes it"
	}
	return seen.Owner + " changes it"
}

// next returns the delay until the end of the first pause. It returns 0 if no object waits.
func (a attempts) next(now time.Time) time.Duration {
	var in time.Duration
	for _, x := range a {
		if x.why != "" {
			in = model.Soonest(in, max(x.nextAt.Sub(now), pause))
		}
	}
	return in
}
