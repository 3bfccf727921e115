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
	// settle is the time for collecting changes on the node before they cause another
	// refresh, because a starting driver makes many at once.
	settle = 100 * time.Millisecond
	// prepareMost is the longest pause before a failed preparation is tried again. GPUs are not
	// advertised without the preparation, and the cause may be a missing folder that no event
	// reports.
	prepareMost = 10 * time.Second
	// watchMin is short, because a source ends a watch to include a new GPU.
	watchMin = 10 * time.Millisecond
)

// Config configures an Observer. D is the type of the desired state. P is the type of the value that
// the Preparer makes for a desired state and the GPUs of the node.
type Config[D, P any] struct {
	Source   gpu.Source
	Preparer Preparer[D, P]
	// Desired is the first desired state for the Preparer.
	Desired D
	// WatchChanges calls changed once at first, and then for each change on the node that may make
	// a failed driver or a failed Preparer succeed. It returns when ctx ends.
	WatchChanges func(ctx context.Context, changed func()) error
	// Retry has the pauses after a refresh that failed, or that returned a faulty GPU. The zero
	// value is 1 s to 20 s.
	Retry pace.Backoff
	Log   *slog.Logger
}

// Observation is the result of one refresh.
type Observation[D, P any] struct {
	// At is the start time of the refresh.
	At time.Time
	// Desired is the desired state that the Preparer has prepared.
	Desired D
	// Node is nil if the driver did not answer.
	Node     *gpu.Node
	Prepared P
	// Linked is set if Node has its links, as far as they can be read (see Link).
	Linked bool
	// Err is the reason why the GPUs cannot be used as Node shows them.
	Err error
}

// Observer reads the GPUs of a node. It makes all calls that may be slow, so that the goroutine
// that receives from it never waits for the driver or a disk.
type Observer[D, P any] struct {
	cfg     Config[D, P]
	desired atomic.Pointer[D]

	refresh      chan struct{}
	reload       chan struct{}
	seen         chan struct{}
	observations chan Observation[D, P]
	events       chan gpu.Event
	hangs        chan error
	// begun is closed after the first watch is active, or has failed.
	begun chan struct{}
	// away is set when a refresh finds that the driver does not answer.
	away atomic.Bool
	// link is set after Link was called.
	link atomic.Bool

	// done is the last observation for which everything was prepared. It is owned by the goroutine
	// that observes.
	done *Observation[D, P]
	// renewed is an observation of the same node that was prepared again and is not delivered yet.
	renewed *Observation[D, P]
	// preparations counts the calls of the Preparer.
	preparations int
	paths        paths
	// completion has the pauses between attempts to complete a node. links is the result of the
	// last attempt to read the links of a node.
	completion pace.Backoff
	links      links
	// missing has the values that the log reports as missing.
	missing []gpu.Fault
}

// New returns an Observer; it does nothing before Run.
func New[D, P any](cfg Config[D, P]) *Observer[D, P] {
	cfg.Retry.First, cfg.Retry.Most = cmp.Or(cfg.Retry.First, retryMin), cmp.Or(cfg.Retry.Most, retryMax)
	o := &Observer[D, P]{
		cfg:          cfg,
		refresh:      make(chan struct{}, 1),
		reload:       make(chan struct{}, 1),
		seen:         make(chan struct{}, 1),
		observations: make(chan Observation[D, P]),
		events:       make(chan gpu.Event, 64),
		hangs:        make(chan error),
		begun:        make(chan struct{}),
		paths:        paths{log: cfg.Log, entries: hostfs.WatchEntries},

		completion: cfg.Retry,
	}
	o.desired.Store(&cfg.Desired)
	return o
}

// Observations delivers the result of each refresh. While Run runs, the caller must receive from
// Observations, Events and Hangs.
func (o *Observer[D, P]) Observations() <-chan Observation[D, P] { return o.observations }

// Events delivers the events of the driver, except for the first event of a watch.
func (o *Observer[D, P]) Events() <-chan gpu.Event { return o.events }

// Hangs delivers an error that wraps gpu.ErrHangs when the driver begins to hang, and
// nil when the driver answers again.
func (o *Observer[D, P]) Hangs() <-chan error { return o.hangs }

// Configure sets the desired state to d and causes a refresh that prepares it. It does not block.
func (o *Observer[D, P]) Configure(d D) {
	o.desired.Store(&d)
	o.Reload()
}

// Desired returns the desired state.
func (o *Observer[D, P]) Desired() D { return *o.desired.Load() }

// Refresh reads the GPUs of the node again. It does not block.
func (o *Observer[D, P]) Refresh() { pace.Signal(o.refresh) }

// Reload is Refresh, and calls the Preparer again even if the node has not changed. It does not
// block.
func (o *Observer[D, P]) Reload() { pace.Signal(o.reload) }

// Link causes a refresh, and adds the links of the GPUs to this and all later
// Observations. It does not block. Links take longer to read than everything else, so
// they are read only for an agent that needs them.
func (o *Observer[D, P]) Link() {
	if !o.link.Swap(true) {
		o.Refresh()
	}
}

// Run observes until ctx ends. It returns an error if the driver was replaced, because only a new
// process can use the new driver.
func (o *Observer[D, P]) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	if c, ok := o.cfg.Source.(gpu.Checker); ok {
		g.Go(func() error { o.watchHangs(ctx, c); return nil })
	}
	g.Go(func() error { return o.observe(ctx) })
	g.Go(func() error { return o.watch(ctx) })
	return g.Wait()
}

func (o *Observer[D, P]) observe(ctx context.Context) error {
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
		case o.observations <- obs:
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
			if !o.waitAfterSuccess(ctx, o.incomplete(obs.Node)) {
				return nil
			}
			continue
		}
		changes.start(ctx)
		pause := retry.Next()
		if obs.Node != nil {
			pause = min(pause, prepareMost)
		}
		if !o.waitAfterFailure(ctx, obs, changes.changed, pause) {
			return nil
		}
	}
}

// observation refreshes once. The preparation for a node stays valid until the node, or the input
// of the Preparer, changes.
func (o *Observer[D, P]) observation(ctx context.Context) Observation[D, P] {
	if obs := o.renewed; obs != nil {
		o.renewed = nil
		return *obs
	}
	d, preparer := o.Desired(), o.cfg.Preparer
	scan := sync.OnceValue(func() func(*gpu.Node) (P, error) { return preparer.Scan(d) })
	back := o.away.Load()
	if o.done == nil {
		// A preparation is needed. Scan the input that does not depend on the GPUs while NVML reads them.
		var scanned sync.WaitGroup
		scanned.Go(func() { scan() })
		defer scanned.Wait()
	}
	// The first refresh waits for the watch. A reading during an active watch misses nothing and
	// need not be repeated.
	select {
	case <-ctx.Done():
		return Observation[D, P]{Err: ctx.Err()}
	case <-o.begun:
	}
	at := time.Now()
	n, err := o.cfg.Source.Snapshot(ctx)
	if err != nil {
		o.done = nil
		return Observation[D, P]{At: at, Desired: d, Err: fmt.Errorf("read the GPUs of the node: %w", err)}
	}
	linked := o.link.Load()
	if linked {
		n = o.links.add(ctx, o.cfg.Source, n, o.done == nil)
	}
	if o.done != nil && equalExceptLinks(o.done.Node, n) && !preparer.Outdated() {
		if o.done.At, o.done.Linked = at, linked; !slices.Equal(o.done.Node.Links, n.Links) {
			o.done.Node = n
		}
		return *o.done
	}
	rest := scan()
	if back && preparer.Outdated() {
		// The program that loaded the driver or changed its GPUs also made files since the last
		// scan.
		rest = preparer.Scan(d)
	}
	return o.prepare(Observation[D, P]{At: at, Desired: d, Node: n, Linked: linked}, rest)
}

// waitAfterFailure waits until it is time to refresh after a failed refresh, and returns false when
// ctx ends. If only the preparation failed and nothing has changed after pause, it prepares again
// without a call of the driver.
func (o *Observer[D, P]) waitAfterFailure(ctx context.Context, failed Observation[D, P], changed <-chan struct{}, pause time.Duration) bool {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-o.refresh:
	case <-o.reload:
		o.done = nil
	case <-timer.C:
		if failed.Node != nil {
			obs := o.prepare(failed, o.cfg.Preparer.Scan(failed.Desired))
			o.renewed = &obs
		}
	case <-changed:
		return pace.Pause(ctx, settle)
	}
	return true
}
