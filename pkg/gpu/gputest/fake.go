// Package gputest helps to test code that uses GPUs. It has nodes, and a Source in memory. The test
// suite that every Source has to pass is in the tests of package reader.
package gputest

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"outrigger.dev/pkg/gpu"
)

// Fake is a gpu.Source in memory. A test changes its node, and running Watches deliver the events
// that a driver would send. As with a driver, events are lost if no Watch runs: see WaitCalls.
type Fake struct {
	mu       sync.Mutex
	node     *gpu.Node
	lost     map[gpu.UUID]bool
	driver   bool
	err      error
	health   error
	watchers map[*watcher]struct{}
	calls    Calls
	changed  chan struct{} // closed and replaced when watchers or calls change
}

// Calls counts the calls of a Fake.
type Calls struct {
	Snapshot, Watch, Close int
}

// watcher is the queue of one Watch. All fields are guarded by Fake.mu.
type watcher struct {
	queue []gpu.Event
	err   error
	wake  chan struct{} // capacity 1
}

var (
	_ gpu.Source  = (*Fake)(nil)
	_ gpu.Checker = (*Fake)(nil)
)

// New returns a Fake with node, whose driver is on.
func New(node *gpu.Node) *Fake {
	return &Fake{
		node:     clone(node),
		lost:     map[gpu.UUID]bool{},
		driver:   true,
		watchers: map[*watcher]struct{}{},
		changed:  make(chan struct{}),
	}
}

// Snapshot returns a copy of the node. Lost GPUs have a Fault and no links.
func (f *Fake) Snapshot(ctx context.Context) (*gpu.Node, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls.Snapshot++
	f.notify()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := f.failure(); err != nil {
		return nil, err
	}
	return f.view(), nil
}

// Watch delivers EventTopologyChanged, and then the events that the methods of Fake cause.
func (f *Fake) Watch(ctx context.Context, deliver func(gpu.Event)) error {
	w := &watcher{wake: make(chan struct{}, 1)}
	w.queue = append(w.queue, gpu.NodeEvent(gpu.EventTopologyChanged))
	w.signal()
	f.mu.Lock()
	f.calls.Watch++
	err := f.failure()
	if err == nil {
		f.watchers[w] = struct{}{}
	}
	f.notify()
	f.mu.Unlock()
	if err != nil {
		return err
	}
	defer f.remove(w)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-w.wake:
		}
		events, err := f.takeEvents(w)
		for _, e := range events {
			if ctx.Err() != nil {
				return nil
			}
			deliver(e)
		}
		if err != nil {
			return err
		}
	}
}

// Close ends the running Watches with gpu.ErrClosed.
func (f *Fake) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls.Close++
	f.endWatches(gpu.ErrClosed)
	f.notify()
	return nil
}

// Calls returns the number of calls of each method of gpu.Source.
func (f *Fake) Calls() Calls {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls
}

// WaitCalls waits until ok returns true for the calls.
func (f *Fake) WaitCalls(ctx context.Context, ok func(Calls) bool) error {
	for {
		f.mu.Lock()
		done, changed := ok(f.calls), f.changed
		f.mu.Unlock()
		if done {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for calls of the fake gpu source: %w", context.Cause(ctx))
		case <-changed:
		}
	}
}

// The methods below need the lock.

func (f *Fake) notify() {
	close(f.changed)
	f.changed = make(chan struct{})
}

func (f *Fake) failure() error {
	switch {
	case f.err != nil:
		return f.err
	case !f.driver:
		return fmt.Errorf("initialize NVML: %w: the fake driver is off", gpu.ErrNoDriver)
	default:
		return nil
	}
}

func (f *Fake) post(events ...gpu.Event) {
	for w := range f.watchers {
		w.queue = append(w.queue, events...)
		w.signal()
	}
}

// gpu returns the GPU id of the node. It panics if the node has no such GPU.
func (f *Fake) gpu(id gpu.UUID) *gpu.GPU {
	if g := f.node.ByUUID(id); g != nil {
		return g
	}
	panic("gputest: the node has no GPU " + string(id))
}

func (f *Fake) endWatches(err error) {
	for w := range f.watchers {
		w.err = err
		w.signal()
	}
}

func (f *Fake) view() *gpu.Node {
	node := clone(f.node)
	broken := map[int]bool{}
	for i := range node.GPUs {
		g := &node.GPUs[i]
		if f.lost[g.UUID] {
			g.Fault = &gpu.Fault{Op: "nvmlDeviceGetMemoryInfo", Reason: "GPU is lost"}
		}
		broken[g.Index] = g.Fault != nil
	}
	node.Links = slices.DeleteFunc(node.Links, func(l gpu.Link) bool { return broken[l.A] || broken[l.B] })
	return node
}

// takeEvents empties the queue of w.
func (f *Fake) takeEvents(w *watcher) ([]gpu.Event, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	events := w.queue
	w.queue = nil
	return events, w.err
}

func (f *Fake) remove(w *watcher) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.watchers, w)
	f.notify()
}

func (w *watcher) signal() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}
