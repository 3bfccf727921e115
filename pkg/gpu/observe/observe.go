// Package observe reads the GPUs of a node for as long as an agent runs: at the
// start, when the driver reports a change, when the agent asks for it, and with
// growing pauses while it fails. It is the first of the three stages of an agent:
// observe, derive, publish.
package observe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/hostfs"
	"outrigger.dev/pkg/pace"
)

const (
	retryMin = time.Second
	retryMax = 20 * time.Second
	// settle is how long changes on the node are collected before they cause
	// another look: a driver that starts makes many at once.
	settle = 100 * time.Millisecond
	// watchMin is short: a source ends a watch to include a new GPU.
	watchMin = 10 * time.Millisecond
)

// Config says what an Observer works with. W is what the agent asks for, for which
// Preparer makes a P for the GPUs of the node.
type Config[W, P any] struct {
	Source   gpu.Source
	Preparer Preparer[W, P]
	// Wanted is what the Preparer prepares at first.
	Wanted W
	// WatchChanges calls changed once at first, and then for each change on
	// the node after which it is worth retrying a driver that did not answer, or a
	// Preparer that failed. It returns when ctx ends.
	WatchChanges func(ctx context.Context, changed func()) error
	// Retry has the pauses before a look is repeated that failed, or that showed a node
	// which is not complete. The zero value is 1 s to 20 s.
	Retry pace.Backoff
	Log   *slog.Logger
}

// Observation is the result of one look at the node.
type Observation[W, P any] struct {
	// At is when the look began.
	At time.Time
	// Wanted is what the Preparer has prepared.
	Wanted W
	// Node is nil if the driver did not answer.
	Node     *gpu.Node
	Prepared P
	// Linked is set if Node has its links, as far as they can be read: see Link.
	Linked bool
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
	// link is set once somebody needs links.
	link atomic.Bool

	// done is the last observation for which everything was prepared. It is
	// owned by the goroutine that observes.
	done *Observation[W, P]
	// renewed is what was prepared anew for the same node, and not delivered yet.
	renewed *Observation[W, P]
	// preparations counts how often the Preparer has prepared.
	preparations int
	paths        paths
	// completion has the pauses between looks at a node that is not complete, and
	// links is the result of the last attempt to read its links.
	completion pace.Backoff
	links      links
	// missing is what was logged as missing.
	missing []gpu.Fault
}

// New returns an Observer; it does nothing before Run.
func New[W, P any](cfg Config[W, P]) *Observer[W, P] {
	cfg.Retry.First, cfg.Retry.Most = cmp.Or(cfg.Retry.First, retryMin), cmp.Or(cfg.Retry.Most, retryMax)
	o := &Observer[W, P]{
		cfg:    cfg,
		again:  make(chan struct{}, 1),
		afresh: make(chan struct{}, 1),
		seen:   make(chan struct{}, 1),
		looks:  make(chan Observation[W, P]),
		events: make(chan gpu.Event, 64),
		hangs:  make(chan error),
		begun:  make(chan struct{}),
		paths:  paths{log: cfg.Log, entries: hostfs.WatchEntries},

		completion: cfg.Retry,
	}
	o.wanted.Store(&cfg.Wanted)
	return o
}

// Looks has the result of each look at the node. While Run runs, somebody must
// receive from it, from Events and from Hangs.
func (o *Observer[W, P]) Looks() <-chan Observation[W, P] { return o.looks }

// Events has the events of the driver, without the one with which a watch begins.
func (o *Observer[W, P]) Events() <-chan gpu.Event { return o.events }

// Hangs has an error that wraps gpu.ErrHangs when the driver begins to hang, and
// nil when the driver answers again.
func (o *Observer[W, P]) Hangs() <-chan error { return o.hangs }

// Configure has the Preparer prepare w from the next look on, which it causes. It
// does not block.
func (o *Observer[W, P]) Configure(w W) {
	o.wanted.Store(&w)
	o.LookAfresh()
}

// Wanted returns what the Preparer is to prepare.
func (o *Observer[W, P]) Wanted() W { return *o.wanted.Load() }

// Look causes another look at the node. It does not block.
func (o *Observer[W, P]) Look() { pace.Signal(o.again) }

// LookAfresh is Look, and has the Preparer prepare again even if the node has not
// changed. It does not block.
func (o *Observer[W, P]) LookAfresh() { pace.Signal(o.afresh) }

// Link causes another look, and has this look and those that follow show the links of
// the GPUs. It does not block. Links take longer to read than all the rest, so that
// nobody waits for them who does not need them.
func (o *Observer[W, P]) Link() {
	if !o.link.Swap(true) {
		o.Look()
	}
}

// Run observes until ctx ends. It returns an error when the driver was replaced:
// only a new process can use the new one.
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
	changes := newChangeWatch(o.cfg.WatchChanges, func(err error) {
		o.cfg.Log.Warn("cannot watch the node for changes, retrying", "at_most_after", o.cfg.Retry.Most, "err", err)
	})
	defer changes.stop()
	defer o.paths.stop()
	retry := o.cfg.Retry
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
			if !o.rest(ctx, o.incomplete(obs.Node)) {
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

// observation looks at the node once. What was prepared for a node stays valid
// until the node, or what the Preparer read, changes.
func (o *Observer[W, P]) observation(ctx context.Context) Observation[W, P] {
	if obs := o.renewed; obs != nil {
		o.renewed = nil
		return *obs
	}
	w, preparer := o.Wanted(), o.cfg.Preparer
	scan := sync.OnceValue(func() func(*gpu.Node) (P, error) { return preparer.Scan(w) })
	if o.done == nil {
		// There is something to prepare: read what does not depend on the GPUs
		// while NVML reads those.
		var scanned sync.WaitGroup
		scanned.Go(func() { scan() })
		defer scanned.Wait()
	}
	// The first look waits for the watch: what is read while a watch is in force
	// misses nothing and need not be read again.
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
	linked := o.link.Load()
	if linked {
		n = o.links.add(ctx, o.cfg.Source, n, o.done == nil)
	}
	if o.done != nil && sameButLinks(o.done.Node, n) && !preparer.Outdated() {
		if o.done.At, o.done.Linked = at, linked; !slices.Equal(o.done.Node.Links, n.Links) {
			o.done.Node = n
		}
		return *o.done
	}
	return o.prepare(Observation[W, P]{At: at, Wanted: w, Node: n, Linked: linked}, scan())
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
