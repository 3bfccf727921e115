package controller

import (
	"strings"
	"testing"
	"time"

	"outrigger.dev/orchestrator/internal/model"
)

// rival undoes an object at each look for a while, and counts how often it is applied again.
func rival(r attempts, now time.Time, every, lasts time.Duration, undone model.State) (applied int, end time.Time) {
	ref := model.Ref{APIVersion: "v1", Kind: "ConfigMap", Name: "x"}
	for end = now; end.Before(now.Add(lasts)); end = end.Add(every) {
		undone.Now = end
		r.observe(undone)
		if !r.postponed(ref, "h", end) {
			r.record(ref, "h", end, false)
			applied++
		}
	}
	return applied, end
}

func TestRepairs(t *testing.T) {
	ref := model.Ref{APIVersion: "v1", Kind: "ConfigMap", Name: "x"}
	noon := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	drifted := func() model.State {
		return model.State{Failures: map[model.Ref]string{}, Objects: map[model.Ref]model.Seen{ref: {Ref: ref, Drifted: true, Owner: "argocd"}}}
	}
	t.Run("a change now and then is repaired at once each time", func(t *testing.T) {
		r := attempts{}
		if n, _ := rival(r, noon, 2*maxRetry, 20*maxRetry, drifted()); n != 10 {
			t.Errorf("repaired %d of 10 times", n)
		}
	})
	t.Run("one that is undone at once is applied ever more rarely", func(t *testing.T) {
		r := attempts{}
		s := drifted()
		n, now := rival(r, noon, time.Second, time.Hour, s)
		// Two at once, 1, 2, 4 … s apart, and then 5 minutes.
		if n < 12 || n > 24 {
			t.Errorf("applied %d times in an hour", n)
		}
		if got := s.Failures[ref]; !strings.Contains(got, "ConfigMap x: argocd changes it") {
			t.Errorf("the failure is %q", got)
		}
		if in := r.next(now); in <= 0 || in > maxRetry*3/2 {
			t.Errorf("looks again after %s", in)
		}
		// The rival stops: told until the object could be applied again, and not after that.
		calm := drifted()
		calm.Objects[ref] = model.Seen{Ref: ref}
		calm.Now = now.Add(maxRetry * 3 / 2)
		r.observe(calm)
		if got := calm.Failures[ref]; got != "" || r.next(calm.Now) != 0 {
			t.Errorf("it is still told: %q", got)
		}
	})
	t.Run("one that is deleted each time too", func(t *testing.T) {
		r := attempts{}
		s := model.State{Failures: map[model.Ref]string{}}
		if n, _ := rival(r, noon, time.Second, time.Hour, s); n > 24 || !strings.Contains(s.Failures[ref], "somebody deletes it") {
			t.Errorf("applied %d times in an hour: %q", n, s.Failures[ref])
		}
	})
	t.Run("other content is applied at once", func(t *testing.T) {
		r := attempts{}
		_, now := rival(r, noon, time.Second, time.Minute, drifted())
		if r.postponed(ref, "other", now) {
			t.Error("it is held")
		}
	})
}

// TestFailedWrites has a write that fails, then succeeds, and is undone later.
func TestFailedWrites(t *testing.T) {
	ref := model.Ref{APIVersion: "v1", Kind: "ConfigMap", Name: "x"}
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	a := attempts{}
	for _, pause := range []time.Duration{firstRetry, 2 * firstRetry, 4 * firstRetry} {
		x := a.record(ref, "applyh", now, true)
		x.why = "no right"
		if end := now.Add(pause); !a.postponed(ref, "applyh", end.Add(-1)) || a.postponed(ref, "applyh", end) || a.next(now) != pause {
			t.Errorf("the pause ends at %s and the next pass is in %s, want a pause of %s", x.nextAt, a.next(now), pause)
		}
		if a.postponed(ref, "applyother", now) {
			t.Error("other content waits, too")
		}
		s := model.State{Failures: map[model.Ref]string{}, Objects: map[model.Ref]model.Seen{}, Now: now}
		if a.observe(s); s.Failures[ref] != "no right" {
			t.Errorf("the failures are %q", s.Failures)
		}
		now = now.Add(pause)
	}
	a.record(ref, "applyh", now, false)
	s := model.State{Failures: map[model.Ref]string{}, Objects: map[model.Ref]model.Seen{ref: {Ref: ref}}, Now: now}
	if a.observe(s); len(s.Failures) > 0 || a.postponed(ref, "applyh", now) || a.next(now) != 0 {
		t.Errorf("after the write succeeded, the failures are %q, and the next pass is in %s", s.Failures, a.next(now))
	}
}
