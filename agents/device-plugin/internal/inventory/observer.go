package inventory

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

	"outrigger.dev/agents/device-plugin/internal/config"
	"outrigger.dev/pkg/gpu"
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

// observation is what one look at the node gave.
type observation struct {
	// at is when the look began.
	at time.Time
	// config is what it was prepared for.
	config config.Config
	// node is nil if the driver did not answer.
	node     *gpu.Node
	prepared Prepared
	// err is why the GPUs cannot be offered as node shows them.
	err error
}

// observer looks at the node: at the start, when told to, and as long as that
// fails, again and again. It owns everything that may be slow, so that the
// plugin's own goroutine never waits for the driver or a disk.
type observer struct {
	source       gpu.Source
	preparer     Preparer
	config       atomic.Pointer[config.Config]
	watchChanges func(context.Context, func()) error
	log          *slog.Logger

	again  chan struct{}
	afresh chan struct{}
	seen   chan struct{}
	looks  chan observation
	events chan gpu.Event
	// begun is closed once the first watch is in force, or has failed.
	begun chan struct{}

	// done is the last observation for which everything was prepared. It is
	// owned by the goroutine that observes.
	done *observation
	// renewed is what was prepared anew for the same node, to be told.
	renewed *observation
}

func newObserver(cfg Config) *observer {
	o := &observer{
		source:       cfg.Source,
		preparer:     cfg.Preparer,
		watchChanges: cfg.WatchChanges,
		log:          cfg.Log,
		again:        make(chan struct{}, 1),
		afresh:       make(chan struct{}, 1),
		seen:         make(chan struct{}, 1),
		looks:        make(chan observation),
		events:       make(chan gpu.Event, 64),
		begun:        make(chan struct{}),
	}
	o.config.Store(&cfg.Config)
	return o
}

// configure makes c what is prepared for from the next look on, which it causes.
// It does not block.
func (o *observer) configure(c config.Config) {
	o.config.Store(&c)
	o.lookAfresh()
}

// wanted returns what is prepared for.
func (o *observer) wanted() config.Config { return *o.config.Load() }

// look causes another look at the node. It does not block.
func (o *observer) look() { signal(o.again) }

// lookAfresh is look, and everything is prepared again, also for a node that
// has not changed. It does not block.
func (o *observer) lookAfresh() { signal(o.afresh) }

// run observes until ctx ends. The driver's replacement is an error: the
// process has to be started again to use the new one.
func (o *observer) run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return o.observe(ctx) })
	g.Go(func() error { return o.watch(ctx) })
	return g.Wait()
}

func (o *observer) observe(ctx context.Context) error {
	changes := &changeWatch{observer: o, changed: make(chan struct{}, 1)}
	defer changes.stop()
	retry := retryMin
	for {
		obs := o.observation(ctx)
		if errors.Is(obs.err, gpu.ErrDriverChanged) {
			return obs.err
		}
		select {
		case o.looks <- obs:
		case <-ctx.Done():
			return nil
		}
		if obs.node != nil {
			signal(o.seen)
		}
		if obs.err == nil {
			changes.stop()
			retry = retryMin
			if !o.rest(ctx) {
				return nil
			}
			continue
		}
		changes.start(ctx)
		if !o.wait(ctx, changes.changed, retry) {
			return nil
		}
		retry = min(2*retry, retryMax)
	}
}

// observation looks at the node once. What is prepared for a node stays good
// until the node or the driver's files change.
func (o *observer) observation(ctx context.Context) observation {
	if obs := o.renewed; obs != nil {
		o.renewed = nil
		return *obs
	}
	c := o.wanted()
	scan := sync.OnceValue(func() func(*gpu.Node) (Prepared, error) { return o.preparer.Scan(c) })
	if o.done == nil {
		// There is something to prepare: the driver root is read while NVML is.
		var scanned sync.WaitGroup
		scanned.Go(func() { scan() })
		defer scanned.Wait()
	}
	// What is read while a watch is in force misses nothing: the first look
	// waits for it, rather than to be repeated.
	select {
	case <-ctx.Done():
		return observation{err: ctx.Err()}
	case <-o.begun:
	}
	at := time.Now()
	n, err := o.source.Snapshot(ctx)
	if err != nil {
		o.done = nil
		return observation{at: at, config: c, err: fmt.Errorf("read the GPUs of the node: %w", err)}
	}
	if o.done != nil && reflect.DeepEqual(o.done.node, n) && !o.preparer.Outdated() {
		o.done.at = at
		return *o.done
	}
	return o.prepare(observation{at: at, config: c, node: n}, scan())
}

// wait waits for a reason to look again after a look that failed, and returns
// false when ctx ends.
func (o *observer) wait(ctx context.Context, changed <-chan struct{}, retry time.Duration) bool {
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
		return pause(ctx, settle)
	}
	return true
}

// watch passes the driver's events on: from the start, and after a watch has
// ended from the next look in which the driver answers.
func (o *observer) watch(ctx context.Context) error {
	retry := watchMin
	signal(o.seen)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-o.seen:
		}
		start := time.Now()
		err := o.source.Watch(ctx, func(ev gpu.Event) { o.deliver(ctx, ev) })
		failed := o.begin()
		switch {
		case ctx.Err() != nil:
			return nil //nolint:nilerr // it was told to end
		case errors.Is(err, gpu.ErrDriverChanged):
			return err
		case errors.Is(err, gpu.ErrWatchUnsupported):
			o.log.Info("no health events from this source of GPUs", "err", err)
			return nil
		case failed:
			continue // the first look tells why
		}
		level := slog.LevelWarn
		if errors.Is(err, gpu.ErrClosed) {
			level = slog.LevelDebug
		}
		o.log.Log(ctx, level, "health events ended, asking for them again", "err", err)
		if time.Since(start) > retryMax {
			retry = watchMin
		}
		// The cause shows in the next look, and events are asked for again
		// once the driver answers that.
		drain(o.seen)
		o.look()
		if !pause(ctx, retry) {
			return nil
		}
		retry = min(2*retry, retryMax)
	}
}

// deliver passes an event on. The first one says that the watch is in force,
// which is what the first look waits for.
func (o *observer) deliver(ctx context.Context, ev gpu.Event) {
	if o.begin() && ev.Kind == gpu.EventTopologyChanged {
		return
	}
	select {
	case o.events <- ev:
	case <-ctx.Done():
	}
}

// begin lets the first look begin, and returns false if it has before.
func (o *observer) begin() bool {
	select {
	case <-o.begun:
		return false
	default:
		close(o.begun)
		return true
	}
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func drain(c chan struct{}) {
	select {
	case <-c:
	default:
	}
}

// pause waits, and returns false when ctx ends before.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
