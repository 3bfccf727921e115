package reader_test

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"gotest.tools/v3/assert"

	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/nvml"
	"outrigger.dev/pkg/gpu/nvml/reader"
	"outrigger.dev/pkg/gpu/observe"
	"outrigger.dev/pkg/pace"
)

// failures are the codes of nvmlReturn_t with which each symbol is made to fail.
func failures() map[string]int {
	return map[string]int{
		"uninitialized": 1, "no permission": 4, "timeout": 10, "gpu is lost": 15, "reset required": 16, "unknown": 999,
	}
}

// What fails for a while, from the start on or later, costs nothing for ever: whichever
// symbol it is, the node is complete again some time after the symbol answers, has its
// links, and its GPUs report XIDs. The times are those of tests: an agent takes up to
// 20 s for it.
func TestWhatFailsForAWhileHeals(t *testing.T) {
	s := newSim(t, "--gpus=3", "--model=h100-80")
	s.run("mig mode", "1", "on")
	s.run("mig create", "1", "1g.10gb+me", "2g.20gb")
	s.calls()
	h := s.observed()
	want := h.whole(nil)
	h.reports(1)
	symbols := s.calls()
	h.end()
	// A string, and the last call of a process.
	delete(symbols, "nvmlErrorString")
	delete(symbols, "nvmlShutdown")
	if len(symbols) < 30 {
		t.Fatalf("an agent calls only %d symbols: %v", len(symbols), symbols)
	}
	for _, symbol := range slices.Sorted(maps.Keys(symbols)) {
		for name, code := range failures() {
			if code == 4 && (symbol == "nvmlDeviceGetGpuInstanceById" || symbol == "nvmlGpuInstanceGetInfo") {
				continue // what drivers always answer to unprivileged processes, which do not ask again
			}
			t.Run(symbol+"/"+name, func(t *testing.T) {
				h := s.with(t).observed()
				defer h.end()
				set := func(code int) { s.run("set", symbol+".return="+strconv.Itoa(code)) }
				defer set(0)
				for _, when := range []string{"at the start", "later"} {
					set(code)
					h.refresh()
					set(0)
					t.Log("made to fail", when)
					h.whole(want)
					h.reports(1)
				}
			})
		}
	}
}

// with returns the node for a part of a test.
func (s *sim) with(t *testing.T) *sim {
	part := *s
	part.t = t
	return &part
}

type none struct{}

// observedNode is a simulated node that is observed.
type observedNode struct {
	s            *sim
	source       *reader.Reader
	observer     *observe.Observer[none, none]
	observations chan observe.Observation[none, none]
	// last is the result of the last refresh.
	last   observe.Observation[none, none]
	events chan gpu.Event
	cancel context.CancelFunc
	ended  chan error
}

// observed begins to observe the node, with its links.
func (s *sim) observed() *observedNode {
	s.t.Helper()
	quiet := slog.New(slog.DiscardHandler)
	src := s.reader(nvml.Config{LibraryPath: s.lib, Log: quiet}).Hurry(40*time.Millisecond, 5*time.Millisecond)
	h := &observedNode{
		s: s, source: src, observations: make(chan observe.Observation[none, none], 1), events: make(chan gpu.Event, 100), ended: make(chan error, 1),
		observer: observe.New(observe.Config[none, none]{
			Source: src, Preparer: observe.Unprepared[none, none]{}, Log: quiet,
			WatchChanges: func(ctx context.Context, _ func()) error { <-ctx.Done(); return nil },
			Retry:        pace.Backoff{First: 5 * time.Millisecond, Most: 20 * time.Millisecond},
		}),
	}
	h.observer.Link()
	ctx, cancel := context.WithCancel(s.t.Context())
	h.cancel = cancel
	go func() { h.ended <- h.observer.Run(ctx) }()
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case obs := <-h.observer.Observations():
				select { // the newest one counts
				case <-h.observations:
				default:
				}
				h.observations <- obs
			case e := <-h.observer.Events():
				if e.Kind == gpu.EventXID {
					h.events <- e
				} else {
					h.observer.Refresh()
				}
			case <-h.observer.Hangs():
			}
		}
	}()
	return h
}

// refresh reads the node, and waits for the result.
func (h *observedNode) refresh() {
	h.s.t.Helper()
	select {
	case <-h.observations:
	default:
	}
	h.observer.Refresh()
	h.next()
}

// next waits for the result of a refresh.
func (h *observedNode) next() {
	h.s.t.Helper()
	select {
	case h.last = <-h.observations:
	case <-time.After(5 * time.Minute):
		h.s.t.Fatalf("no refresh for a minute of a node that is not complete: %+v, error %v", h.last.Node, h.last.Err)
	}
}

// whole waits until the node is complete, and as desired.
func (h *observedNode) whole(want *gpu.Node) *gpu.Node {
	h.s.t.Helper()
	for end := time.Now().Add(5 * time.Minute); time.Now().Before(end); h.next() {
		n := h.last.Node
		if h.last.Err == nil && n != nil && n.Complete() && len(n.Links) == 3 && (want == nil || cmp.Equal(want, n)) {
			return n
		}
	}
	h.s.t.Fatalf("the node is not complete after a minute (-want +got), error %v:\n%s", h.last.Err, cmp.Diff(want, h.last.Node))
	return nil
}

// reports waits until a GPU reports an XID.
func (h *observedNode) reports(index int) {
	h.s.t.Helper()
	late := time.After(5 * time.Minute)
	for {
		h.s.run("xid", strconv.Itoa(index), "43")
		select {
		case <-h.events:
			return
		case <-late:
			h.s.t.Fatal("no XID is reported for a minute")
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// end ends the observation.
func (h *observedNode) end() {
	h.s.t.Helper()
	h.cancel()
	assert.NilError(h.s.t, <-h.ended)
	assert.NilError(h.s.t, h.source.Close())
}
