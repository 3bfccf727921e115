package reader_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"gotest.tools/v3/assert"

	"outrigger.dev/pkg/gpu"
)

const (
	// patience is the time limit for any expected event.
	patience = 5 * time.Minute
	// promptly is the time limit for the end of a watch.
	promptly = 20 * time.Second
)

func diff[T any](t *testing.T, want, got T, opts ...cmp.Option) {
	t.Helper()
	if d := cmp.Diff(want, got, opts...); d != "" {
		t.Errorf("mismatch (-want +got):\n%s", d)
	}
}

func (h harness) snapshot(t *testing.T) *gpu.Node {
	t.Helper()
	node, err := h.read(t.Context())
	assert.NilError(t, err)
	return node
}

// read takes a snapshot with its links.
func (h harness) read(ctx context.Context) (*gpu.Node, error) {
	node, err := h.Source.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	return gpu.Linked(ctx, h.Source, node)
}

// watching is a Watch that is running.
type watching struct {
	events chan gpu.Event
	done   chan error
	cancel context.CancelFunc
}

// watch starts a Watch and waits until it is active. It ends with the test.
func (h harness) watch(t *testing.T) *watching {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	w := &watching{events: make(chan gpu.Event, 256), done: make(chan error, 1), cancel: cancel}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		w.done <- h.Source.Watch(ctx, func(e gpu.Event) { w.events <- e })
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	w.next(t, gpu.EventTopologyChanged)
	return w
}

// next waits for an event of a kind. It skips events of other kinds.
func (w *watching) next(t *testing.T, kind gpu.EventKind) gpu.Event {
	t.Helper()
	late := time.After(patience)
	for {
		select {
		case e := <-w.events:
			if e.Kind == kind {
				return e
			}
		case err := <-w.done:
			t.Fatalf("Watch() = %v while an event %q was awaited", err, kind)
		case <-late:
			t.Fatalf("no event %q within %v", kind, patience)
		}
	}
}

// end waits for the watch to end by itself.
func (w *watching) end(t *testing.T) error {
	t.Helper()
	select {
	case err := <-w.done:
		return err
	case <-time.After(patience):
		t.Fatalf("Watch() is still running after %v", patience)
		return nil
	}
}
