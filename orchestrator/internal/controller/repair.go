package controller

import (
	"fmt"
	"time"

	"outrigger.dev/orchestrator/internal/model"
	"outrigger.dev/pkg/pace"
)

// immediateRepairs is the number of repairs of an object without a delay.
const immediateRepairs = 2

// repairs counts, for each applied object, how often it was applied again. Another controller may
// undo each write.
type repairs map[model.Ref]*repair

type repair struct {
	hash    string
	times   int
	backoff pace.Backoff
	// nextAt is the earliest time of the next apply of the object.
	nextAt time.Time
	// held is the reason why the object is not as desired until then. It is empty if no program
	// changed the object.
	held string
}

// observe finds the objects that another program changed or deleted again, and adds the reason to
// the failures of the state.
func (r repairs) observe(s model.State) {
	for ref, x := range r {
		seen, there := s.Objects[ref]
		undone := !there || seen.Drifted
		switch {
		case !undone && !s.Now.Before(x.nextAt):
			x.held = ""
		case undone && s.Now.Before(x.nextAt):
			x.held = fmt.Sprintf("%s: %s each time after it was applied: let only one program manage it; it is applied again after pauses of up to %s", ref, undoneBy(seen, there), maxRetry)
		}
		if x.held != "" {
			s.Failures[ref] = x.held
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

// postponed reports whether it is too early to apply an object with this hash again.
func (r repairs) postponed(ref model.Ref, hash string, now time.Time) bool {
	x := r[ref]
	return x != nil && x.hash == hash && now.Before(x.nextAt)
}

// applied records that an object with this hash was applied.
func (r repairs) applied(ref model.Ref, hash string, now time.Time) {
	x := r[ref]
	if x == nil || x.hash != hash || now.Sub(x.nextAt) > maxRetry {
		r[ref] = &repair{hash: hash, nextAt: now, backoff: pace.Backoff{First: firstRetry, Most: maxRetry}}
		return
	}
	x.nextAt = now
	if x.times++; x.times > immediateRepairs {
		x.nextAt = now.Add(jitter(x.backoff.Next()))
	}
}

// next returns the delay until the next attempt, or 0 if no object is held.
func (r repairs) next(now time.Time) time.Duration {
	var in time.Duration
	for _, x := range r {
		if x.held != "" {
			in = model.Soonest(in, max(x.nextAt.Sub(now), pause))
		}
	}
	return in
}
