// Package observe looks at the GPUs of a node for as long as an agent runs: at
// the start, when the driver tells of a change, when the agent asks for it, and
// again and again while it fails. It is the first of the three stages of an
// agent: observe, derive, publish.
package observe

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/pace"
)

const (
	retryMin = time.Second
	retryMax = 30 * time.Second
	// settle is how long changes on the node are collected before they cause
	// another look: a driver that comes up makes many at once.
	settle = 100 * time.Millisecond
	// watchMin is short: a source ends a watch to take in a new GPU.
	watchMin = 10 * time.Millisecond
)

// Config says what an Observer looks at. W is what the agent wants, of which
// Preparer makes a P for the GPUs that are there.
type Config[W, P any] struct {
	Source   gpu.Source
	Preparer Preparer[W, P]
	// Wanted is what is prepared for at first.
	Wanted W
	// WatchChanges calls changed once at first, and then for each change on
	// the node after which a driver that did not answer, or a Preparer that
	// failed, is worth another try. It returns when ctx ends.
	WatchChanges func(ctx context.Context, changed func()) error
	Log          *slog.Logger
}

// Observation is what one look at the node gave.
type Observation[W, P any] struct {
	// At is when the look began.
	At time.Time
	// Wanted is what it was prepared for.
	Wanted W
	// Node is nil if the driver did not answer.
	Node     *gpu.Node
	Prepared P
	// Err is why the GPUs cannot be used as Node shows them.
	Err error
}

// Observer looks at a node. It owns everything that may be slow, so that the
// goroutine which receives from it never waits for the driver or a disk.
type Observer[W, P any] struct {
	cfg    Config[W, P]
	wanted atomic.Pointer[W]

	again  chan struct{}
	afresh chan struct{}
	seen   chan struct{}
	looks  chan Observation[W, P]
	events chan gpu.Event
	hangs  chan error
	// begun is closed once the first watch is in force, or has failed.
	begun chan struct{}
	// away is set when a look shows that the driver does not answer.
	away atomic.Bool

	// done is the last observation for which everything was prepared. It is
	// owned by the goroutine that observes.
	done *Observation[W, P]
	// renewed is what was prepared anew for the same node, to be told.
	renewed *Observation[W, P]
}

// New returns an Observer; it does nothing before Run.
func New[W, P any](cfg Config[W, P]) *Observer[W, P] {
	o := &Observer[W, P]{
		cfg:    cfg,
		again:  make(chan struct{}, 1),
		afresh: make(chan struct{}, 1),
		seen:   make(chan struct{}, 1),
		looks:  make(chan Observation[W, P]),
		events: make(chan gpu.Event, 64),
		hangs:  make(chan error),
		begun:  make(chan struct{}),
	}
	o.wanted.Store(&cfg.Wanted)
	return o
}

// Looks has what each look at the node gave. It has to be received from while
// Run runs, and so have Events and Hangs.
func (o *Observer[W, P]) Looks() <-chan Observation[W, P] { return o.looks }

// Events has the events of the driver, without the one by which a watch begins.
func (o *Observer[W, P]) Events() <-chan gpu.Event { return o.events }

// Hangs has an error that wraps gpu.ErrHangs when the driver begins to hang, and
// nil when it answers again.
func (o *Observer[W, P]) Hangs() <-chan error { return o.hangs }

// Configure makes w what is prepared for from the next look on, which it causes.
// It does not block.
func (o *Observer[W, P]) Configure(w W) {
	o.wanted.Store(&w)
	o.LookAfresh()
}

// Wanted returns what is prepared for.
func (o *Observer[W, P]) Wanted() W { return *o.wanted.Load() }

// Look causes another look at the node. It does not block.
func (o *Observer[W, P]) Look() { pace.Signal(o.again) }

// LookAfresh is Look, and everything is prepared again, also for a node that
// has not changed. It does not block.
func (o *Observer[W, P]) LookAfresh() { pace.Signal(o.afresh) }

// Run observes until ctx ends. The driver's replacement is an error: the
// process has to be started again to use the new one.
func (o *Observer[W, P]) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return o.observe(ctx) })
	g.Go(func() error { return o.watch(ctx) })
	if c, ok := o.cfg.Source.(gpu.Checker); ok {
		g.Go(func() error { o.watchHangs(ctx, c); return nil })
	}
	return g.Wait()
}

func (o *Observer[W, P]) observe(ctx context.Context) error {
	changes := newChangeWatch(o.cfg)
	defer changes.stop()
	retry := pace.Backoff{First: retryMin, Most: retryMax}
	for {
		obs := o.observation(ctx)
		if errors.Is(obs.Err, gpu.ErrDriverChanged) {
			return obs.Err
		}
		select {
		case o.looks <- obs:
		case <-ctx.Done():
			return nil
		}
		if obs.Node == nil {
			o.away.Store(true)
		} else {
			pace.Signal(o.seen)
		}
		if obs.Err == nil {
			changes.stop()
			retry.Reset()
			if !o.rest(ctx) {
				return nil
			}
			continue
		}
		changes.start(ctx)
		if !o.wait(ctx, changes.changed, retry.Next()) {
			return nil
		}
	}
}

// observation looks at the node once. What is prepared for a node stays good
// until the node or what the Preparer read changes.
func (o *Observer[W, P]) observation(ctx context.Context) Observation[W, P] {
	if obs := o.renewed; obs != nil {
		o.renewed = nil
		return *obs
	}
	w, preparer := o.Wanted(), o.cfg.Preparer
	scan := sync.OnceValue(func() func(*gpu.Node) (P, error) { return preparer.Scan(w) })
	if o.done == nil {
		// There is something to prepare: what does not depend on the GPUs is read
		// while NVML is.
		var scanned sync.WaitGroup
		scanned.Go(func() { scan() })
		defer scanned.Wait()
	}
	// What is read while a watch is in force misses nothing: the first look
	// waits for it, rather than to be repeated.
	select {
	case <-ctx.Done():
		return Observation[W, P]{Err: ctx.Err()}
	case <-o.begun:
	}
	at := time.Now()
	n, err := o.cfg.Source.Snapshot(ctx)
	if err != nil {
		o.done = nil
		return Observation[W, P]{At: at, Wanted: w, Err: fmt.Errorf("read the GPUs of the node: %w", err)}
	}
	if o.done != nil && reflect.DeepEqual(o.done.Node, n) && !preparer.Outdated() {
		o.done.At = at
		return *o.done
	}
	return o.prepare(Observation[W, P]{At: at, Wanted: w, Node: n}, scan())
}

// wait waits for a reason to look again after a look that failed, and returns
// false when ctx ends.
func (o *Observer[W, P]) wait(ctx context.Context, changed <-chan struct{}, retry time.Duration) bool {
	timer := time.NewTimer(retry)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-o.again:
	case <-o.afresh:
		o.done = nil
	case <-timer.C:
	case <-changed:
		return pace.Pause(ctx, settle)
	}
	return true
}

// watch passes the driver's events on: from the start, and after a watch has
// ended from the next look in which the driver answers. A driver that was away is
// watched at once, however often it goes: only by the watch is that noticed. One
// that answers while watches of it end is given ever more time.
func (o *Observer[W, P]) watch(ctx context.Context) error {
	retry := pace.Backoff{First: watchMin, Most: retryMax}
	pace.Signal(o.seen)
	for first := true; ; first = false {
		select {
		case <-ctx.Done():
			return nil
		case <-o.seen:
		}
		if o.away.Swap(false) {
			retry.Reset()
		} else if !first && !retry.Pause(ctx) {
			return nil
		}
		start := time.Now()
		err := o.cfg.Source.Watch(ctx, func(ev gpu.Event) { o.deliver(ctx, ev) })
		failed := o.begin()
		switch {
		case ctx.Err() != nil:
			return nil //nolint:nilerr // it was told to end
		case errors.Is(err, gpu.ErrDriverChanged):
			return err
		case errors.Is(err, gpu.ErrWatchUnsupported):
			o.cfg.Log.Info("no health events from this source of GPUs", "err", err)
			return nil
		case failed:
			continue // the first look tells why
		}
		level := slog.LevelWarn
		if errors.Is(err, gpu.ErrClosed) {
			level = slog.LevelDebug
		}
		o.cfg.Log.Log(ctx, level, "health events ended, asking for them again", "err", err)
		if time.Since(start) > retryMax {
			retry.Reset()
		}
		// The cause shows in the next look, and events are asked for again
		// once the driver answers that.
		pace.Drain(o.seen)
		o.Look()
	}
}

// deliver passes an event on. The first one says that the watch is in force,
// which is what the first look waits for.
func (o *Observer[W, P]) deliver(ctx context.Context, ev gpu.Event) {
	if o.begin() && ev.Kind == gpu.EventTopologyChanged {
		return
	}
	select {
	case o.events <- ev:
	case <-ctx.Done():
	}
}

// begin lets the first look begin, and returns false if it has before.
func (o *Observer[W, P]) begin() bool {
	select {
	case <-o.begun:
		return false
	default:
		close(o.begun)
		return true
	}
}
