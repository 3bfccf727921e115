package nodestate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"outrigger.dev/pkg/kube"
	"outrigger.dev/pkg/pace"
)

// cluster is the own Node at an API server that reports changes.
type cluster struct {
	mu   sync.Mutex
	node Node
	// version is that of the Node.
	version int
	// labels, conditions and taints are how often these were written, or tried to
	// be.
	labels, conditions, taints int
	// fail and failTaint are what such a write is answered with.
	fail, failTaint error
	// rival undoes what is written, and the watch reports nothing while it is late.
	rival, late bool
	watched     chan Node
}

func (c *cluster) watch(ctx context.Context, deliver func(Node)) {
	c.change(func() {})
	for {
		select {
		case <-ctx.Done():
			return
		case n := <-c.watched:
			deliver(n)
		}
	}
}

func (c *cluster) read(context.Context) (Node, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.node, nil
}

// write makes the Node another one, unless the write fails, and returns it.
func (c *cluster) write(count *int, err error, change func()) (Node, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	*count++
	if err != nil {
		return Node{}, err
	}
	change()
	c.notify()
	n := c.node
	if c.rival {
		c.node.Labels = map[string]string{"a": "rival"}
		c.notify()
	}
	return n, nil
}

func (c *cluster) applyMetadata(_ context.Context, labels, annotations map[string]string) (Node, error) {
	return c.write(&c.labels, c.fail, func() {
		c.node.Labels, c.node.Annotations = labels, annotations
		c.node.Managed = []Managed{{Manager: mine, Applied: true, Labels: slices.Collect(maps.Keys(labels)), Annotations: slices.Collect(maps.Keys(annotations))}}
	})
}

func (c *cluster) applyCondition(_ context.Context, cond *Condition) (Node, error) {
	return c.write(&c.conditions, nil, func() {
		c.node.Conditions = nil
		if cond != nil {
			c.node.Conditions = []Condition{*cond}
		}
	})
}

func (c *cluster) removeTaint(_ context.Context, t Taint) (Node, error) {
	return c.write(&c.taints, c.failTaint, func() { c.node.Taints = slices.DeleteFunc(slices.Clone(c.node.Taints), t.sameTaint) })
}

func (*cluster) patch(context.Context, []kube.Operation) (Node, error) { panic("not in these tests") }

// notify has the watch see the Node as it is.
func (c *cluster) notify() {
	c.version++
	c.node.Version = strconv.Itoa(c.version)
	if !c.late {
		c.watched <- c.node
	}
}

// change makes the Node another one behind the agent's back.
func (c *cluster) change(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f()
	c.notify()
}

// tries returns how often labels were written since the last call, once all has
// settled.
func (c *cluster) tries() int {
	synctest.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.labels
	c.labels = 0
	return n
}

func (c *cluster) has(t *testing.T, labels map[string]string) {
	t.Helper()
	synctest.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	if !maps.Equal(c.node.Labels, labels) {
		t.Errorf("labels %v, want %v", c.node.Labels, labels)
	}
}

// keep runs what keeps something published until the test ends.
func keep(t *testing.T, run func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run() = %v", err)
		}
	})
}

var gate = Taint{Key: "outrigger.dev/gpu-not-ready", Effect: "NoSchedule"}

const mine = "feature-discovery"

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }

// of returns a Keeper for a Node, which does not run.
func of(c *cluster) *Keeper { return keeperOf(newWriter(c, Config{manager: mine, Log: discard()})) }

// startNode keeps a Node of a cluster.
func startNode(t *testing.T, c *cluster) *Keeper {
	t.Helper()
	c.watched = make(chan Node, 1024)
	n := of(c)
	keep(t, n.Run)
	return n
}

// pass lets the time of the bubble pass.
func pass(t *testing.T, d time.Duration) {
	t.Helper()
	pace.Pause(t.Context(), d)
	synctest.Wait()
}

// is checks an Err.
func is(t *testing.T, got error, want string) {
	t.Helper()
	if want == "" && got != nil || want != "" && (got == nil || !strings.Contains(got.Error(), want)) {
		t.Errorf("Err() = %v, want %q", got, want)
	}
}

var (
	one = map[string]string{"a": "1"}
	two = map[string]string{"b": "2"}
)

func TestTheNodeIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &cluster{}
		n := startNode(t, c)
		synctest.Wait()
		n.Set(Desired{Labels: one})
		c.has(t, one)
		is(t, n.Err(), "")
		n.Set(Desired{Labels: two})
		c.has(t, two)
		n.Set(Desired{})
		c.has(t, two)
		n.Set(Desired{Labels: two})
		pass(t, time.Hour)
		if tries := c.tries(); tries != 2 {
			t.Errorf("labels were written %d times, want 2", tries)
		}
		c.change(func() { c.node.Labels = nil })
		c.has(t, two)
		is(t, n.Err(), "")
	})
}

func TestWhatIsWithdrawn(t *testing.T) {
	for name, tc := range map[string]struct{ labels, condition bool }{
		"labels and condition": {true, true}, "labels": {true, false}, "the condition": {false, true},
	} {
		t.Run(name, func(t *testing.T) {
			c := &cluster{late: true, node: Node{Labels: one, Conditions: []Condition{{Type: "GPUReady"}}}}
			n := of(c)
			if err := n.Withdraw(t.Context(), Published{Metadata: tc.labels, Condition: tc.condition}); err != nil {
				t.Fatal(err)
			}
			if left := len(c.node.Labels) > 0; left == tc.labels {
				t.Errorf("labels %v", c.node.Labels)
			}
			if left := len(c.node.Conditions) > 0; left == tc.condition {
				t.Errorf("conditions %v", c.node.Conditions)
			}
		})
	}
}

func TestTheNodeIsReadAnewByEachRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &cluster{watched: make(chan Node, 1024)}
		n := of(c)
		is(t, n.Err(), "not been read yet")
		run := func(want string) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			ended := make(chan error, 1)
			go func() { ended <- n.Run(ctx) }()
			n.Set(Desired{Labels: one})
			synctest.Wait()
			is(t, n.Err(), want)
			cancel()
			is(t, <-ended, "")
		}
		run("")
		c.change(func() { c.late = true })
		run("not been read yet")
		if tries := c.tries(); tries != 1 {
			t.Errorf("labels were written %d times, want once", tries)
		}
	})
}

func TestWhatWasWrittenIsKnownBeforeItIsSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		taint := Taint{Key: "x", Effect: "NoSchedule"}
		c := &cluster{node: Node{Taints: []Taint{taint, gate}}}
		n := startNode(t, c)
		synctest.Wait()
		c.change(func() { c.late = true })
		ready := &Condition{Type: "GPUReady", Status: "True"}
		for range 3 {
			n.Set(Desired{Labels: one, Condition: ready, Remove: gate})
			pass(t, time.Hour)
			is(t, n.Err(), "")
		}
		if tries := c.tries(); tries != 1 || c.conditions != 1 || c.taints != 1 {
			t.Errorf("labels were written %d times, the condition %d times, and the taint %d times, want once each", tries, c.conditions, c.taints)
		}
		n.Set(Desired{Labels: two, Condition: ready, Remove: gate})
		c.has(t, two)
	})
}

// Two writers that undo each other must not wear the API server out, also where
// something else cannot be written at all.
func TestAnotherWriterIsMetSlowerAndSlower(t *testing.T) {
	for name, tc := range map[string]struct {
		fail error
		says string
	}{
		"and else all is well":      {nil, "another writer"},
		"and the taint is rejected": {refused(403), "403"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := &cluster{rival: true, failTaint: tc.fail}
				if tc.fail != nil {
					c.node.Taints = []Taint{gate}
				}
				n := startNode(t, c)
				n.Set(Desired{Labels: one, Condition: &Condition{Type: "GPUReady", Status: "True"}, Remove: gate})
				pass(t, time.Minute)
				if tries := c.tries(); tries < 3 || tries > 10 {
					t.Errorf("labels were written %d times in the first minute", tries)
				}
				is(t, n.Err(), tc.says)
				pass(t, time.Hour)
				if tries := c.tries(); tries < 6 || tries > 20 {
					t.Errorf("labels were written %d times in an hour", tries)
				}
				c.change(func() { c.rival, c.failTaint, c.node.Taints = false, nil, nil })
				pass(t, time.Hour)
				c.has(t, one)
				is(t, n.Err(), "")
				c.tries()
				// After a calm time another one is met at once.
				c.change(func() { c.node.Labels = nil })
				if tries := c.tries(); tries != 1 {
					t.Errorf("labels were written %d times, want once", tries)
				}
				c.change(func() { c.node.Labels = nil })
				pass(t, time.Second)
				if tries := c.tries(); tries != 1 {
					t.Errorf("labels were written %d times a second after that, want once", tries)
				}
			})
		})
	}
}

func TestWhatFailsIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		denied := fmt.Errorf("apply labels to node n1: %w", refused(403))
		c := &cluster{fail: denied}
		n := startNode(t, c)
		n.Set(Desired{Labels: one})
		if tries := c.tries(); tries != 1 {
			t.Errorf("%d tries at once, want 1", tries)
		}
		is(t, n.Err(), denied.Error())
		for range 100 { // a busy Node is no reason to hurry
			c.change(func() { c.node.Taints = append(c.node.Taints, Taint{Key: "x"}) })
		}
		if tries := c.tries(); tries != 0 {
			t.Errorf("%d tries for changes of others, want none", tries)
		}
		pass(t, time.Hour)
		if tries := c.tries(); tries < 10 || tries > 20 {
			t.Errorf("%d tries in an hour", tries)
		}
		n.Set(Desired{Labels: two})
		if tries := c.tries(); tries != 1 {
			t.Errorf("%d tries for other labels, want 1 at once", tries)
		}
		c.change(func() { c.fail = nil })
		pass(t, 10*time.Minute)
		c.has(t, two)
		is(t, n.Err(), "")
	})
}

// An outage ends without a change of the agent's, so it retries more often.
func TestAnOutageIsOverSoonAfterItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &cluster{fail: errors.New("connection refused")}
		n := startNode(t, c)
		n.Set(Desired{Labels: one})
		pass(t, time.Hour)
		c.change(func() { c.fail = nil })
		pass(t, time.Minute)
		c.has(t, one)
	})
}

func busy() error { return apierrors.NewTooManyRequests("busy", 30) }

func refused(code int32) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{Code: code, Message: strconv.Itoa(int(code))}}
}

func TestAnAPIServerThatAsksToWaitIsLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &cluster{fail: busy()}
		n := startNode(t, c)
		n.Set(Desired{Labels: one})
		if tries := c.tries(); tries != 1 {
			t.Errorf("%d tries at once, want 1", tries)
		}
		n.Set(Desired{Labels: two})
		pass(t, 29*time.Second)
		if tries := c.tries(); tries != 0 {
			t.Errorf("%d tries for other labels, want none before the time is over", tries)
		}
		c.change(func() { c.fail = nil })
		pass(t, 17*time.Second)
		c.has(t, two)
	})
}
