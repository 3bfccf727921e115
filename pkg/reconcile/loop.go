// Package reconcile has the loop that programs use to reconcile their desired state. The loop calls a
// step again after a wake-up, after an error, and when the step asks for it.
package reconcile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"outrigger.dev/pkg/pace"
)

const (
	// retryFirst and retryMost are the delays after errors if a Config has none.
	retryFirst, retryMost = time.Second, 5 * time.Second
	// recheckFirst and recheckMost are the pauses between steps after calls of Recheck.
	// recheckQuiet is the time without such a call after which the pauses are short again.
	recheckFirst, recheckMost = 10 * time.Millisecond, 5 * time.Second
	recheckQuiet              = 30 * time.Second
)

// Result says when to call a step again. If the step returned an error, only Rest counts.
type Result struct {
	// After is the time until the next step without a wake-up. 0 means no such step, and less than
	// 0 a step at once.
	After time.Duration
	// Rest is the minimum time before the next step, even if the loop is woken.
	Rest time.Duration
	// Pending is the reason why the loop is not ready although the step returned no error.
	Pending error
}

// Config describes a Loop.
type Config struct {
	// Name identifies the loop in logs, in metrics, and in the reason why it is not ready.
	Name string
	// Step observes, derives and acts once. It does nothing if the desired state is reached. A loop
	// never runs two steps at the same time.
	Step func(ctx context.Context) (Result, error)
	// Retry has the delays after errors; zero for 1 s to 5 s. The loop adds a random time of up to
	// half of the delay.
	Retry pace.Backoff
	// Delays returns limits for an error: least, the minimum time until the next step, even if the
	// loop is woken, and most, the longest delay. 0 means no limit. Delays may be nil.
	Delays func(error) (least, most time.Duration)
	// Wakes is the channel of Wake, if the caller already has one. It must have a capacity of one.
	Wakes chan struct{}
	// Patient is set if wake-ups do not end the delay after an error.
	Patient bool
	// Eager is set if the delays after errors are short again after a wake-up.
	Eager bool
	// Starting is the reason why the loop is not ready before the first step ends. It may be nil.
	Starting error
	// Failed logs an error that differs from the previous error. If nil, a default logs it.
	Failed func(err error, in time.Duration)
	Log    *slog.Logger
}

// Loop calls a step again and again. Its methods are safe for concurrent use.
type Loop struct {
	cfg           Config
	wake, recheck chan struct{}
	status        *Status
	// rechecks has the pauses between steps after calls of Recheck. rechecked is the start time of
	// the last of these steps.
	rechecks  pace.Backoff
	rechecked time.Time
}

// New returns a Loop. It does nothing before Run.
func New(cfg Config) *Loop {
	if cfg.Retry.First == 0 {
		cfg.Retry = pace.Backoff{First: retryFirst, Most: retryMost}
	}
	if cfg.Delays == nil {
		cfg.Delays = func(error) (least, most time.Duration) { return 0, 0 }
	}
	if cfg.Failed == nil {
		cfg.Failed = func(err error, in time.Duration) {
			cfg.Log.Warn("cannot reconcile, retrying", "loop", cfg.Name, "in", in, "err", err)
		}
	}
	starting := cfg.Starting
	if starting == nil {
		starting = fmt.Errorf("start: %s has not been reconciled yet", cfg.Name)
	}
	return &Loop{
		cfg: cfg, wake: cmp.Or(cfg.Wakes, make(chan struct{}, 1)), recheck: make(chan struct{}, 1), status: NewStatus(starting),
		rechecks: pace.Backoff{First: recheckFirst, Most: recheckMost},
	}
}

// Wake causes a step: now, or after the running step. Wake-ups before the next step count as one.
// It does not block.
func (l *Loop) Wake() { pace.Signal(l.wake) }

// Recheck is Wake for a change by the step itself, or by another program that may undo the work of
// the step. If calls come fast, the pauses between the steps that they cause grow up to 5 s.
func (l *Loop) Recheck() { pace.Signal(l.recheck) }

// Ready returns nil after a step without an error. Otherwise it returns the error, the Pending of
// the step, or an error that no step has ended yet.
func (l *Loop) Ready() error { return l.status.Err() }

// Run calls the step at once, and then again according to Config and Result, until ctx ends or the
// step returns an error of Fatal, which Run returns. The end of ctx is not an error.
func (l *Loop) Run(ctx context.Context) error {
	failing, retry := false, l.cfg.Retry
	for ctx.Err() == nil {
		pace.Drain(l.wake)
		pace.Drain(l.recheck)
		begin := time.Now()
		r, err := l.cfg.Step(ctx)
		if ctx.Err() != nil {
			break
		}
		observe(ctx, l.cfg.Name, time.Since(begin), err)
		if f, is := errors.AsType[*fatalError](err); is {
			return f.error
		}
		var in, hold time.Duration
		if err != nil {
			in, hold = l.delay(&retry, err)
			r.After, r.Rest = in, max(r.Rest, hold)
		} else {
			retry.Reset()
		}
		if changed := l.status.Set(cmp.Or(err, r.Pending)); err != nil && (changed || !failing) {
			l.cfg.Failed(err, in)
		} else if err == nil && failing {
			l.cfg.Log.Info("reconciled again after errors", "loop", l.cfg.Name)
		}
		failing = err != nil
		if woken := l.wait(ctx, r) || pace.Drain(l.wake); woken && l.cfg.Eager {
			retry.Reset()
		}
	}
	return nil //nolint:nilerr // the end of ctx is no error
}

// delay returns the delay after an error, and the minimum time before a wake-up can end it.
func (l *Loop) delay(retry *pace.Backoff, err error) (in, hold time.Duration) {
	least, most := l.cfg.Delays(err)
	if in = retry.Next(); most > 0 {
		in = min(in, most)
	}
	in = max(in, least) + rand.N(in/2+1) //nolint:gosec,mnd // no secret depends on it
	if least > 0 || l.cfg.Patient {
		hold = in
	}
	return in, hold
}

// wait returns when the next step is due, or when ctx ends. It reports whether the loop was woken
// meanwhile.
func (l *Loop) wait(ctx context.Context, r Result) (woken bool) {
	begin := time.Now()
	timer := time.NewTimer(r.After)
	defer timer.Stop()
	var due time.Time
	// The function by makes the next step due after a time, unless it is due earlier.
	by := func(in time.Duration) {
		at := begin.Add(max(r.Rest, time.Since(begin)+in))
		if due.IsZero() || at.Before(due) {
			due = at
			timer.Reset(time.Until(at))
		}
	}
	if timer.Stop(); r.After != 0 {
		by(r.After)
	}
	recheck := l.recheck
	for {
		select {
		case <-ctx.Done():
			return woken
		case <-l.wake:
			woken = true
			by(0)
		case <-recheck:
			recheck = nil // several signals before the step count as one
			by(l.pause())
			defer func() { l.rechecked = time.Now() }()
		case <-timer.C:
			return woken
		}
	}
}

// pause returns how long the loop waits after a call of Recheck before it runs the step.
func (l *Loop) pause() time.Duration {
	since := time.Since(l.rechecked)
	if since > recheckQuiet {
		l.rechecks.Reset()
		return 0
	}
	return l.rechecks.Next() - since
}

// fatalError is an error that ends a Loop.
type fatalError struct{ error }

func (e *fatalError) Unwrap() error { return e.error }

// Fatal returns an error that ends the Run of a Loop whose step returns it. Run returns err.
func Fatal(err error) error { return &fatalError{err} }
