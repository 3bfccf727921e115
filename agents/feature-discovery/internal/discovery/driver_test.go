package discovery_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gotest.tools/v3/assert"

	"outrigger.dev/agents/feature-discovery/internal/discovery"
	"outrigger.dev/agents/feature-discovery/internal/ready"
	"outrigger.dev/pkg/agent/agenttest"
	"outrigger.dev/pkg/cause"
	"outrigger.dev/pkg/contract"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/gputest"
)

var (
	errHangs   = fmt.Errorf("nvmlInit_v2 has not answered for 30s: %w", gpu.ErrHangs)
	errClaimed = fmt.Errorf("initialize NVML: %w by mig-manager (apply all-1g.10gb)", contract.ErrClaimed)
)

// slow is a source whose driver does not answer before it is let.
type slow struct {
	*gputest.Fake
	answers chan struct{}
}

func (s slow) Snapshot(ctx context.Context) (*gpu.Node, error) {
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-s.answers:
		return s.Fake.Snapshot(ctx)
	}
}

// startSlow is start with a driver that answers once the channel is closed.
func startSlow(t *testing.T) (*rig, chan struct{}) {
	t.Helper()
	answers := make(chan struct{})
	r := start(t, gputest.Node(gputest.H100, 8), func(c *discovery.Config) {
		c.Source = slow{c.Source.(*gputest.Fake), answers}
	})
	return r, answers
}

func TestNothingIsSaidBeforeTheFirstRefresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, answers := startSlow(t)
		r.quiet(t)
		assert.ErrorContains(t, r.Unknown(), "has not been read yet")
		close(answers)
		check(t, r.published(t), ready.True, ready.GPUsReady, h100("8"))
		if err := r.Unknown(); err != nil {
			t.Errorf("Unknown() = %v while the labels are known", err)
		}
	})
}

// Before the first refresh no labels are known, but the condition of an earlier run must
// not stay true.
func TestTheDriverHangsAtTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, answers := startSlow(t)
		r.source.SetHealth(errHangs)
		pass(t, time.Minute)
		w := r.published(t)
		checkReady(t, w, ready.False, cause.DriverHangs)
		r.unknown(t, w, gpu.ErrHangs)
		r.source.SetHealth(nil)
		close(answers)
		pass(t, time.Minute)
		check(t, r.published(t), ready.True, ready.GPUsReady, h100("8"))
	})
}

func TestTheDriverHangsAndAnswersAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, gputest.Node(gputest.H100, 8), nil)
		before := r.published(t)
		r.source.SetHealth(errHangs)
		pass(t, time.Minute)
		w := r.published(t)
		check(t, w, ready.False, cause.DriverHangs, before.Labels)
		reads := r.source.Calls().Snapshot
		r.source.SetHealth(nil)
		pass(t, time.Minute)
		check(t, r.published(t), ready.True, ready.GPUsReady, before.Labels)
		if n := r.source.Calls().Snapshot - reads; n != 1 {
			t.Errorf("%d refreshes after the driver has answered, want 1: what happened meanwhile may have been missed", n)
		}
	})
}

func TestTheDriverIsLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(gputest.Node(gputest.H100, 8), nil)
		r.source.SetDriver(false)
		agenttest.Run(t, r.Run)
		w := r.published(t)
		r.unknown(t, w, gpu.ErrNoDriver)
		checkReady(t, w, ready.False, cause.DriverNotFound)
		pass(t, time.Hour)
		r.quiet(t)
		r.source.SetDriver(true)
		r.driver <- struct{}{}
		pass(t, time.Second)
		check(t, r.published(t), ready.True, ready.GPUsReady, h100("8"))
	})
}

// What was known still holds while another agent needs NVML for itself.
func TestTheDriverIsClaimed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(gputest.Node(gputest.H100, 8), nil)
		r.source.SetError(errClaimed)
		agenttest.Run(t, r.Run)
		w := r.published(t)
		r.unknown(t, w, contract.ErrClaimed)
		checkReady(t, w, ready.Unknown, cause.DriverClaimed)
		r.source.SetError(nil)
		r.driver <- struct{}{}
		pass(t, time.Second)
		check(t, r.published(t), ready.True, ready.GPUsReady, h100("8"))
		r.source.SetError(errClaimed)
		pass(t, time.Minute)
		r.quiet(t)
	})
}

func TestLabelsStayWhileTheDriverIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, gputest.Node(gputest.H100, 8), nil)
		before := r.published(t)
		r.source.SetDriver(false)
		w := r.published(t)
		check(t, w, ready.False, cause.DriverNotFound, nil)
		if !maps.Equal(w.Labels, before.Labels) {
			t.Errorf("labels %v, want %v", w.Labels, before.Labels)
		}
		if err := r.Unknown(); err != nil {
			t.Errorf("Unknown() = %v while the labels are known", err)
		}
		r.source.SetDriver(true)
		pass(t, time.Minute)
		check(t, r.published(t), ready.True, ready.GPUsReady, before.Labels)
	})
}

func TestLabelsGoWithTheGPUs(t *testing.T) {
	for name, tc := range map[string]struct {
		leave func(*rig)
		stay  bool
	}{
		"the driver answers and the bus has none": {func(r *rig) {
			r.setBus(0)
			r.source.SetNode(gputest.Node(gputest.H100, 0))
		}, false},
		"there is no driver, and the bus has none": {func(r *rig) {
			r.setBus(0)
			r.source.SetDriver(false)
		}, false},
		"there is no driver, and nobody knows what the bus has": {func(r *rig) {
			r.bus.Store(&discovery.Machine{Product: "DGX H100", Unknown: true})
			r.source.SetDriver(false)
		}, true},
		"the driver shows none of those that it has taken": {func(r *rig) {
			r.source.SetNode(gputest.Node(gputest.H100, 0))
		}, true},
		"the driver shows none, as virtual machines have them": {func(r *rig) {
			r.setBusOf(8, "vfio-pci")
			r.source.SetNode(gputest.Node(gputest.H100, 0))
		}, false},
		"the driver fails, and the bus has none": {func(r *rig) {
			r.setBus(0)
			r.source.SetError(errors.New("nvmlDeviceGetCount_v2: Unknown Error"))
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := start(t, gputest.Node(gputest.H100, 8), nil)
				r.news(t)
				tc.leave(r)
				w := r.published(t)
				if w.Condition == nil || w.Condition.Status != ready.False {
					t.Errorf("condition %+v, want one that does not hold", w.Condition)
				}
				if w.Labels == nil || tc.stay != (w.Labels[product] != "") || !tc.stay && w.Labels[count] != "" {
					t.Errorf("labels %v, want that they stay: %v", w.Labels, tc.stay)
				}
			})
		})
	}
}

// A node that lost its GPUs while no agent ran has labels that must go, although
// this process never knew why they were there.
func TestLabelsOfAnEarlierProcessGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(gputest.Node(gputest.H100, 0), nil)
		r.source.SetDriver(false)
		agenttest.Run(t, r.Run)
		w := r.published(t)
		if w.Labels == nil || len(w.Labels) > 0 || r.Unknown() != nil {
			t.Errorf("labels %v, Unknown() = %v, want an empty set of labels", w.Labels, r.Unknown())
		}
	})
}

func TestABrokenGPUDoesNotRemoveTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, gputest.Node(gputest.H100, 2), nil)
		before := r.published(t)
		ids := []gpu.UUID{}
		for _, g := range gputest.Node(gputest.H100, 2).GPUs {
			ids = append(ids, g.UUID)
		}
		r.source.Lose(ids[1])
		w := r.published(t)
		check(t, w, ready.True, ready.GPUsReady, before.Labels)
		if w.Condition != nil && !strings.Contains(w.Condition.Message, string(ids[1])) {
			t.Errorf("message %q does not name GPU %s", w.Condition.Message, ids[1])
		}
		r.source.Lose(ids[0])
		check(t, r.published(t), ready.False, cause.AllGPUsFaulty, before.Labels)
		time.Sleep(time.Second) //nolint:forbidigo // a snapshot at the time of an event proves nothing
		r.source.Heal(ids[0])
		r.source.Heal(ids[1])
		check(t, r.published(t), ready.True, ready.GPUsReady, before.Labels)
	})
}

func TestADriverThatWasReplacedEndsTheProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(gputest.Node(gputest.H100, 8), nil)
		r.source.SetError(fmt.Errorf("initialize NVML: %w: %w", gpu.ErrNoDriver, gpu.ErrDriverChanged))
		assert.ErrorIs(t, r.Run(t.Context()), gpu.ErrDriverChanged)
	})
}

func TestFailOnInitErrorIsForTheStart(t *testing.T) {
	strict := func(c *discovery.Config) { c.Config.FailOnInitError = true }
	synctest.Test(t, func(t *testing.T) {
		r := newRig(gputest.Node(gputest.H100, 8), strict)
		r.source.SetDriver(false)
		if err := r.Run(t.Context()); !errors.Is(err, gpu.ErrNoDriver) || !strings.Contains(err.Error(), "fail-on-init-error") {
			t.Errorf("Run() = %v, want %v and which flag makes it an error", err, gpu.ErrNoDriver)
		}
		r.quiet(t)
	})
	synctest.Test(t, func(t *testing.T) {
		r := start(t, gputest.Node(gputest.H100, 8), strict)
		r.news(t)
		r.source.SetDriver(false)
		check(t, r.published(t), ready.False, cause.DriverNotFound, h100("8"))
	})
}

func TestOnce(t *testing.T) {
	r := newRig(gputest.Node(gputest.H100, 8), nil)
	labels, err := r.Once(t.Context())
	assert.NilError(t, err)
	checkLabels(t, labels, h100("8"))
	r.source.SetDriver(false)
	if labels, err := r.Once(t.Context()); !errors.Is(err, gpu.ErrNoDriver) || labels != nil {
		t.Errorf("Once() without a driver = %v, %v; want %v", labels, err, gpu.ErrNoDriver)
	}
	r.source.SetDriver(true)
	r.source.SetNode(gputest.Node(gputest.H100, 0))
	fresh := discovery.New(r.cfg)
	if labels, err := fresh.Once(t.Context()); err == nil || labels != nil {
		t.Errorf("Once() with a driver that shows none of its GPUs = %v, %v; want an error", labels, err)
	}
	if len(r.wants) > 0 || len(r.recorded) > 0 {
		t.Error("Once has published something")
	}
}

func TestOnceDoesNotWaitForADriverThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(gputest.Node(gputest.H100, 8), func(c *discovery.Config) {
			c.Source = slow{c.Source.(*gputest.Fake), make(chan struct{})}
		})
		if labels, err := r.Once(t.Context()); !errors.Is(err, context.DeadlineExceeded) || labels != nil {
			t.Errorf("Once() = %v, %v; want %v", labels, err, context.DeadlineExceeded)
		}
	})
}
