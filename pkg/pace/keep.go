package pace

import (
	"context"
	"time"
)

const (
	// keepPause is the pause between two calls of Put after changes by others, and
	// keepPauseMax the longest one, for two programs that undo the work of each other.
	keepPause, keepPauseMax = 10 * time.Millisecond, 5 * time.Second
	// keepQuiet is the time without a change after which the pauses are short again.
	keepQuiet = 30 * time.Second
)

// Keeping describes what Keep keeps as desired.
type Keeping struct {
	// Put makes what is there as desired. It does nothing if it is so already.
	Put func(ctx context.Context) error
	// Desired has a signal when the desired state has changed.
	Desired <-chan struct{}
	// Found has a signal when what is there may have changed.
	Found <-chan struct{}
	// Every is the time between calls of Put without a signal; 0 for no such calls.
	Every time.Duration
	// Retry has the delays after errors; zero for 1 s to 5 s.
	Retry Backoff
	// RetryIn returns the next delay of Retry, or another one that the error asks for. Nil
	// means the next one.
	RetryIn func(*Backoff, error) time.Duration
	// Busy returns how long Put must not be called again after an error, not even if the
	// desired state changes. Nil means no time.
	Busy func(error) time.Duration
	// Failed is called with each error that differs from the one before.
	Failed func(err error, in time.Duration)
}

// Keep calls Put after each signal, after growing delays while it fails, and every Every,
// until ctx ends. If signals of Found come fast, because another program undoes what Put
// does, the pauses between the calls grow up to 5 s.
func Keep(ctx context.Context, k Keeping) {
	if k.Retry.First == 0 {
		k.Retry = Backoff{First: time.Second, Most: keepPauseMax}
	}
	if k.RetryIn == nil {
		k.RetryIn = func(b *Backoff, _ error) time.Duration { return b.Next() }
	}
	found := pauses{Backoff: Backoff{First: keepPause, Most: keepPauseMax}}
	next := alarm{Timer: time.NewTimer(0)}
	defer next.Stop()
	next.set(0)
	failed := ""
	var busy time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-k.Desired:
			if in := time.Until(busy); in > 0 {
				next.sooner(in)
				continue
			}
		case <-k.Found:
			if in := max(found.left(), time.Until(busy)); in > 0 {
				next.sooner(in)
				continue
			}
		case <-next.C:
		}
		found.over()
		err := k.Put(ctx)
		if err == nil {
			failed = ""
			k.Retry.Reset()
			next.set(k.Every)
			continue
		}
		in := k.RetryIn(&k.Retry, err)
		if k.Busy != nil {
			in = max(in, k.Busy(err))
			busy = time.Now().Add(k.Busy(err))
		}
		next.set(in)
		if ctx.Err() == nil && err.Error() != failed {
			failed = err.Error()
			k.Failed(err, in)
		}
	}
}

// alarm is a timer that may be off.
type alarm struct {
	*time.Timer
	// at is zero while it is off.
	at time.Time
}

// set makes it ring once, after in; 0 turns it off.
func (a *alarm) set(in time.Duration) {
	a.Stop()
	a.at = time.Time{}
	if in > 0 {
		a.at = time.Now().Add(in)
		a.Reset(in)
	}
}

// sooner is set, unless it rings sooner.
func (a *alarm) sooner(in time.Duration) {
	if a.at.IsZero() || time.Until(a.at) > in {
		a.set(in)
	}
}

// pauses separates events: ever more while they keep coming.
type pauses struct {
	Backoff
	// last is when the last event was handled, and until the end of the pause that an
	// event waits for.
	last, until time.Time
}

// left returns how long the event that comes now has to wait.
func (p *pauses) left() time.Duration {
	now := time.Now()
	if p.until.IsZero() {
		if now.Sub(p.last) > keepQuiet {
			p.Reset()
			p.last, p.until = now, now
		} else {
			p.until = p.last.Add(p.Next())
		}
	}
	return p.until.Sub(now)
}

// over records that the event that waits is handled now.
func (p *pauses) over() {
	if !p.until.IsZero() {
		p.last, p.until = time.Now(), time.Time{}
	}
}
