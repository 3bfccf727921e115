package controller

import (
	"fmt"
	"time"

	"outrigger.dev/orchestrator/internal/model"
	"outrigger.dev/pkg/pace"
)

// atOnce is how often an object is repaired without a delay.
const atOnce = 2

// repairs has for each applied object how often it had to be applied again: another controller may
// undo it each time.
type repairs map[model.Ref]*repair

type repair struct {
	hash    string
	times   int
	backoff pace.Backoff
	// at is when it may be applied again.
	at time.Time
	// held is why it is not as desired until then; empty if nothing undid it.
	held string
}

// observe finds out which objects are undone again, and adds why to the failures of a state.
func (r repairs) observe(s model.State) {
	for ref, x := range r {
		seen, there := s.Objects[ref]
		undone := !there || seen.Drifted
		switch {
		case !undone && !s.Now.Before(x.at):
			x.held = ""
		case undone && s.Now.Before(x.at):
			x.held = fmt.Sprintf("%s: %s each time after it was applied: let only one program manage it; it is applied again after pauses of up to %s", ref, by(seen, there), most)
		}
		if x.held != "" {
			s.Failures[ref] = x.held
		}
	}
}

func by(seen model.Seen, there bool) string {
	switch {
	case !there:
		return "somebody deletes it"
	case seen.Owner == "":
		return "somebody changes it"
	}
	return seen.Owner + " changes it"
}

// hold reports whether it is too early to apply an object with this hash again.
func (r repairs) hold(ref model.Ref, hash string, now time.Time) bool {
	x := r[ref]
	return x != nil && x.hash == hash && now.Before(x.at)
}

// applied records that an object with this hash was applied.
func (r repairs) applied(ref model.Ref, hash string, now time.Time) {
	x := r[ref]
	if x == nil || x.hash != hash || now.Sub(x.at) > most {
		r[ref] = &repair{hash: hash, at: now, backoff: pace.Backoff{First: first, Most: most}}
		return
	}
	x.at = now
	if x.times++; x.times > atOnce {
		x.at = now.Add(jitter(x.backoff.Next()))
	}
}

// next returns after which time to look again, 0 if nothing is held.
func (r repairs) next(now time.Time) time.Duration {
	var in time.Duration
	for _, x := range r {
		if x.held != "" {
			in = model.Soonest(in, max(x.at.Sub(now), pause))
		}
	}
	return in
}
