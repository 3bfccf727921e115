package observe_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/gputest"
)

// What is not complete is read again without an event, at most 20 s later, until it is.
func TestANodeThatIsNotCompleteIsReadAgain(t *testing.T) {
	fault := &gpu.Fault{Op: "nvmlDeviceGetMigMode", Reason: "Unknown Error"}
	for name, c := range map[string]struct {
		spoil func(*gpu.Node)
		// most is the longest pause between two attempts.
		most time.Duration
	}{
		"a faulty GPU":          {func(n *gpu.Node) { n.GPUs[1].Fault = fault }, 20 * time.Second},
		"a value of a GPU":      {func(n *gpu.Node) { n.GPUs[1].Missing = []gpu.Fault{*fault} }, 20 * time.Second},
		"a value of the driver": {func(n *gpu.Node) { n.Missing = []gpu.Fault{*fault} }, 20 * time.Second},
		"a faulty MIG device": {func(n *gpu.Node) {
			gputest.Partition(n, 1, "1g.5gb")
			n.GPUs[1].MIG.Devices[0].Fault = fault
		}, 20 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, nil)
				node := gputest.Node(gputest.A100, 2)
				c.spoil(node)
				r.source.SetNode(node)
				r.run()
				<-time.After(5 * time.Second)
				if n := r.source.Calls().Snapshot; n < 3 {
					t.Errorf("%d refreshes in 5 s, want some", n)
				}
				<-time.After(time.Hour)
				before := r.source.Calls().Snapshot
				if want := int(time.Hour / c.most); before < want || before > want+10 {
					t.Errorf("%d refreshes in an hour, want one every %s", before, c.most)
				}
				if n := r.preparer.prepared.Load(); n != 1 {
					t.Errorf("prepared %d times, want once for the same node", n)
				}
				r.source.SetNode(gputest.Node(gputest.A100, 2))
				<-time.After(c.most)
				if obs, _ := r.last(); !obs.Node.Complete() {
					t.Errorf("the node is %+v %s after it works", obs.Node, c.most)
				}
				before = r.source.Calls().Snapshot
				<-time.After(time.Hour)
				if n := r.source.Calls().Snapshot - before; n > 0 {
					t.Errorf("%d refreshes of a node that is complete, want none", n)
				}
			})
		})
	}
}

// completer is a source that can complete its last snapshot.
type completer struct {
	*gputest.Fake
	completed atomic.Int32
}

func (c *completer) Complete(ctx context.Context) (*gpu.Node, error) {
	c.completed.Add(1)
	return c.Fake.Snapshot(ctx) // which counts it as a snapshot
}

// A driver that denies a value for ever is asked for that value alone.
func TestOnlyWhatIsMissingIsReadAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var source *completer
		r := newRig(t, func(s gpu.Source) gpu.Source {
			source = &completer{Fake: s.(*gputest.Fake)}
			return source
		})
		node := gputest.Node(gputest.A100, 2)
		node.GPUs[0].Missing = []gpu.Fault{{Op: "nvmlDeviceGetBrand", Reason: "Insufficient Permissions"}}
		r.source.SetNode(node)
		r.run()
		check := func(what string, whole, completed int) {
			t.Helper()
			if _, n := r.last(); n != whole {
				t.Errorf("%s: %d observations, want %d", what, n, whole)
			}
			if n := int(source.completed.Load()); n < completed || n > completed+10 {
				t.Errorf("%s: completed %d times, want %d", what, n, completed)
			}
			if n := r.source.Calls().Snapshot - int(source.completed.Load()); n != whole {
				t.Errorf("%s: %d whole snapshots, want %d", what, n, whole)
			}
		}
		<-time.After(time.Hour)
		check("an hour without the value", 1, 180)
		r.source.SetNode(gputest.Node(gputest.A100, 2))
		<-time.After(20 * time.Second)
		check("the value can be read", 2, 181)
		if obs, _ := r.last(); !obs.Node.Complete() {
			t.Errorf("the node is %+v", obs.Node)
		}
	})
}

// linker is a source that leaves out links.
type linker struct {
	*gputest.Fake
	reads atomic.Int32
	fails atomic.Bool
}

func (l *linker) Snapshot(ctx context.Context) (*gpu.Node, error) {
	n, err := l.Fake.Snapshot(ctx)
	if n != nil {
		n.Links = nil
	}
	return n, err
}

func (l *linker) Links(ctx context.Context, _ *gpu.Node) ([]gpu.Link, error) {
	l.reads.Add(1)
	if l.fails.Load() {
		return nil, errors.New("nvmlDeviceGetTopologyCommonAncestor: Unknown Error")
	}
	n, err := l.Fake.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	return n.Links, nil
}

func TestLinksAreReadOnceTheyAreNeeded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var source *linker
		r := newRig(t, func(s gpu.Source) gpu.Source {
			source = &linker{Fake: s.(*gputest.Fake)}
			return source
		})
		source.fails.Store(true)
		r.run()
		check := func(what string, links, reads int) {
			t.Helper()
			obs, _ := r.last()
			if obs.Err != nil || len(obs.Node.Links) != links || int(source.reads.Load()) != reads || obs.Linked != (reads > 0) {
				t.Errorf("%s: %d links after %d reads, linked %v, error %v; want %d after %d",
					what, len(obs.Node.Links), source.reads.Load(), obs.Linked, obs.Err, links, reads)
			}
		}
		r.observer.Reload()
		check("nobody needs links", 0, 0)
		r.observer.Link()
		check("they cannot be read", 0, 1)
		source.fails.Store(false)
		<-time.After(2 * time.Second)
		check("they can be read again", 1, 2)
		r.observer.Link()
		r.observer.Refresh()
		check("another refresh of the same GPUs", 1, 2)
		if n := r.preparer.prepared.Load(); n != 2 {
			t.Errorf("prepared %d times, want once, and once afresh: links are nothing to prepare for", n)
		}
		r.observer.Reload()
		check("a reload", 1, 3)
		r.source.SetNode(gputest.Node(gputest.A100, 3))
		r.observer.Refresh()
		check("another GPU", 3, 4)
	})
}
