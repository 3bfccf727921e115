package reconcile_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"gotest.tools/v3/assert"

	"outrigger.dev/pkg/pace"
	"outrigger.dev/pkg/reconcile"
)

var errFull = errors.New("no space left on device")

// rig is a Loop whose step does as a test says.
type rig struct {
	*reconcile.Loop
	t   *testing.T
	log bytes.Buffer
	// begin lets Run begin: what a test sets before it waits holds for the first step.
	begin func()
	// ended has the result of Run.
	ended chan error
	stop  context.CancelFunc
	// observed has what the observer of the loop got.
	observed []string

	mu     sync.Mutex
	steps  []time.Time
	result reconcile.Result
	err    error
}

// start runs a Loop from the first call of after until the test ends. step may be nil.
func start(t *testing.T, cfg reconcile.Config, step func(r *rig)) *rig {
	t.Helper()
	r := &rig{t: t, ended: make(chan error, 1)}
	cfg.Name, cfg.Log = "labels", slog.New(slog.NewTextHandler(&r.log, nil))
	cfg.Step = func(context.Context) (reconcile.Result, error) {
		if step != nil {
			step(r)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.steps = append(r.steps, time.Now())
		return r.result, r.err
	}
	r.Loop = reconcile.New(cfg)
	ctx, stop := context.WithCancel(t.Context())
	r.stop = stop
	ctx = reconcile.WithObserver(ctx, func(loop string, took time.Duration, err error) {
		r.observed = append(r.observed, fmt.Sprint(loop, " ", took, " ", err))
	})
	begin := make(chan struct{})
	r.begin = sync.OnceFunc(func() { close(begin) })
	go func() {
		select {
		case <-begin:
		case <-ctx.Done():
		}
		r.ended <- r.Run(ctx)
	}()
	t.Cleanup(stop)
	return r
}

// answer sets what the next steps return.
func (r *rig) answer(result reconcile.Result, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.result, r.err = result, err
}

// after waits, and returns how many steps there were since the last call.
func (r *rig) after(d time.Duration) int {
	r.t.Helper()
	r.begin()
	pace.Pause(r.t.Context(), d)
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	n := len(r.steps)
	r.steps = nil
	return n
}

func (r *rig) want(d time.Duration, steps int, when string) {
	r.t.Helper()
	if n := r.after(d); n != steps {
		r.t.Errorf("%d steps %s, want %d", n, when, steps)
	}
}

// lines returns how many lines of the log have a text.
func (r *rig) lines(text string) int { return strings.Count(r.log.String(), text) }

func TestALoopRestsUntilItIsWoken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, reconcile.Config{}, nil)
		r.want(24*time.Hour, 1, "in a day without a wake-up")
		r.Wake()
		r.want(0, 1, "after a wake-up")
		r.Recheck()
		r.want(0, 1, "after something was found")
	})
}

func TestALoopIsWokenByAChannelThatIsThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		changed := make(chan struct{}, 1)
		r := start(t, reconcile.Config{Wakes: changed}, nil)
		r.after(time.Hour)
		pace.Signal(changed)
		r.want(time.Hour, 1, "after a signal")
		r.Wake()
		r.want(time.Hour, 1, "after a wake-up")
	})
}

func TestAWakeUpDuringAStepLeadsToOneMore(t *testing.T) {
	for name, wake := range map[string]func(*reconcile.Loop){"Wake": (*reconcile.Loop).Wake, "Recheck": (*reconcile.Loop).Recheck} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				woken := false
				r := start(t, reconcile.Config{}, func(r *rig) {
					if !woken {
						woken = true
						wake(r.Loop)
						wake(r.Loop)
					}
				})
				r.want(time.Hour, 2, "in an hour")
			})
		})
	}
}

func TestAStepSaysWhenItIsCalledAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, reconcile.Config{}, func(r *rig) { r.answer(reconcile.Result{After: time.Minute}, nil) })
		r.want(time.Hour+time.Second, 61, "in an hour of one a minute")
		r.Wake()
		r.want(time.Second, 1, "for a wake-up before the minute ends")
		r.want(59*time.Second, 1, "a minute after it")
	})
	synctest.Test(t, func(t *testing.T) {
		left := 3
		r := start(t, reconcile.Config{}, func(r *rig) {
			if left--; left > 0 {
				r.answer(reconcile.Result{After: -time.Hour}, nil)
			} else {
				r.answer(reconcile.Result{}, nil)
			}
		})
		r.want(0, 3, "at once")
		r.want(time.Hour, 0, "after that")
	})
}

func TestAStepSaysHowLongItRests(t *testing.T) {
	for name, err := range map[string]error{"without an error": nil, "after an error": errFull} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := start(t, reconcile.Config{}, func(r *rig) { r.answer(reconcile.Result{Rest: 10 * time.Second}, err) })
				r.want(time.Second, 1, "at first")
				for range 8 {
					r.Wake()
					r.Recheck()
					r.want(time.Second, 0, "while the loop rests")
				}
				r.want(time.Second+time.Millisecond, 1, "for all wake-ups at the end of the rest")
			})
		})
	}
}

func TestDelaysAfterErrorsGrow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, reconcile.Config{Retry: pace.Backoff{First: time.Second, Most: time.Minute}}, nil)
		r.want(0, 1, "at once")
		r.answer(reconcile.Result{After: time.Nanosecond}, errFull)
		r.Wake()
		synctest.Wait()
		pace.Pause(t.Context(), time.Hour)
		r.mu.Lock()
		for i := range len(r.steps) - 1 {
			least := min(time.Second<<min(i, 10), time.Minute)
			if got := r.steps[i+1].Sub(r.steps[i]); got < least || got > least+least/2 {
				t.Errorf("delay %d is %s, want %s or up to half more", i, got, least)
			}
		}
		r.mu.Unlock()
		r.after(0)
		r.answer(reconcile.Result{}, nil)
		r.want(90*time.Second+1, 1, "until one succeeded")
		r.want(time.Hour, 0, "after that")
		r.answer(reconcile.Result{}, errFull)
		r.Wake()
		r.want(1500*time.Millisecond+1, 2, "after the first error since a success")
	})
}

func TestAWakeUpEndsTheDelayAfterAnError(t *testing.T) {
	for name, wake := range map[string]func(*reconcile.Loop){"Wake": (*reconcile.Loop).Wake, "Recheck": (*reconcile.Loop).Recheck} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := start(t, reconcile.Config{Retry: pace.Backoff{First: time.Hour, Most: time.Hour}}, nil)
				r.answer(reconcile.Result{}, errFull)
				r.want(time.Minute, 1, "at first")
				wake(r.Loop)
				r.want(0, 1, "for the wake-up")
			})
		})
	}
}

func TestAPatientLoopWaitsAfterAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, reconcile.Config{Patient: true, Retry: pace.Backoff{First: time.Minute, Most: time.Minute}}, nil)
		r.answer(reconcile.Result{}, errFull)
		r.want(0, 1, "at first")
		for range 5 {
			r.Wake()
			r.Recheck()
			r.want(10*time.Second, 0, "before the delay ends")
		}
		r.want(40*time.Second+1, 1, "at its end")
	})
}

func TestAnEagerLoopTriesOftenAfterAWakeUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, reconcile.Config{Eager: true, Retry: pace.Backoff{First: time.Millisecond, Most: time.Hour}}, nil)
		r.answer(reconcile.Result{}, errFull)
		r.after(time.Hour)
		r.Wake()
		r.want(0, 1, "at once")
		r.want(2*time.Millisecond, 1, "after the first delay")
	})
}

func TestAnErrorLimitsItsDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var least, most time.Duration
		r := start(t, reconcile.Config{
			Retry:  pace.Backoff{First: time.Second, Most: time.Hour},
			Delays: func(error) (time.Duration, time.Duration) { return least, most },
		}, nil)
		r.after(0)
		least = time.Minute
		r.answer(reconcile.Result{}, errFull)
		r.Wake()
		r.want(0, 1, "at once")
		for range 6 {
			r.Wake()
			r.Recheck()
			r.want(9*time.Second, 0, "while the server asks to wait")
		}
		r.answer(reconcile.Result{}, nil)
		r.want(8*time.Second, 1, "after that")
		least, most = 0, 10*time.Second
		r.answer(reconcile.Result{}, errFull)
		r.Wake()
		r.after(time.Hour)
		if n := r.after(time.Hour); n < 240 || n > 360 {
			t.Errorf("%d steps in an hour, want one every 10 to 15 s", n)
		}
	})
}

// TestALoopDoesNotFight: another program undoes at once what the step does.
func TestALoopDoesNotFight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var peace atomic.Bool
		r := start(t, reconcile.Config{}, func(r *rig) {
			if !peace.Load() {
				r.Recheck()
			}
		})
		r.after(0)
		if n := r.after(time.Second); n < 4 || n > 8 {
			t.Errorf("%d steps in the first second, want some", n)
		}
		r.after(time.Minute)
		if n := r.after(time.Minute); n < 11 || n > 13 {
			t.Errorf("%d steps in a minute, want one every 5 s", n)
		}
		for range 10 {
			r.Recheck()
		}
		r.Wake()
		r.want(0, 1, "for a wake-up that is none of another program")
		if n := r.after(time.Minute); n < 11 || n > 13 {
			t.Errorf("%d steps in a minute after it, want one every 5 s", n)
		}
		peace.Store(true)
		r.after(time.Minute)
		r.Recheck()
		r.want(0, 1, "at once after a while")
	})
}

func TestTheLoopIsReadyAfterAStepWithoutAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, reconcile.Config{}, func(*rig) { pace.Pause(t.Context(), time.Second) })
		ready := func(want string) {
			t.Helper()
			got := ""
			if err := r.Ready(); err != nil {
				got = err.Error()
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("Ready (-want +got):\n%s", diff)
			}
		}
		ready("start: labels has not been reconciled yet")
		r.after(time.Second)
		ready("")
		r.answer(reconcile.Result{}, errFull)
		r.Wake()
		r.after(time.Second)
		ready(errFull.Error())
		r.answer(reconcile.Result{Pending: errors.New("waiting for a driver")}, nil)
		r.Wake()
		r.after(time.Second)
		ready("waiting for a driver")
	})
	starting := errors.New("start: the bus has not been scanned yet")
	assert.ErrorIs(t, reconcile.New(reconcile.Config{Starting: starting}).Ready(), starting)
}

func TestAnErrorIsLoggedWhenItChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, reconcile.Config{Starting: errFull}, nil)
		r.answer(reconcile.Result{}, errFull)
		r.after(time.Hour)
		if n := r.lines("cannot reconcile, retrying"); n != 1 || r.lines("loop=labels") != 1 {
			t.Errorf("%d lines, want 1:\n%s", n, r.log.String())
		}
		r.answer(reconcile.Result{}, errors.New("read-only file system"))
		r.after(time.Hour)
		r.answer(reconcile.Result{}, nil)
		r.after(time.Hour)
		r.Wake()
		r.after(time.Hour)
		r.answer(reconcile.Result{}, errFull)
		r.Wake()
		r.after(time.Hour)
		if n, again := r.lines("cannot reconcile, retrying"), r.lines("reconciled again"); n != 3 || again != 1 {
			t.Errorf("%d errors and %d recoveries, want 3 and 1:\n%s", n, again, r.log.String())
		}
	})
	synctest.Test(t, func(t *testing.T) {
		failed := 0
		r := start(t, reconcile.Config{Failed: func(err error, in time.Duration) {
			if failed++; !errors.Is(err, errFull) || in < time.Second {
				t.Errorf("failed with %v, retrying in %s", err, in)
			}
		}}, func(r *rig) { r.answer(reconcile.Result{}, errFull) })
		r.after(time.Hour)
		if failed != 1 || r.log.Len() > 0 {
			t.Errorf("%d calls, log %s", failed, r.log.String())
		}
	})
}

func TestTheEndOfTheContextIsNoError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, reconcile.Config{}, func(started *rig) {
			pace.Pause(t.Context(), time.Second)
			started.answer(reconcile.Result{}, context.Canceled)
		})
		r.stop()
		if err := <-r.ended; err != nil || r.log.Len() > 0 {
			t.Errorf("Run() = %v, log %s", err, r.log.String())
		}
		resting := start(t, reconcile.Config{}, nil)
		resting.after(time.Hour)
		resting.stop()
		assert.NilError(t, <-resting.ended)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := r.Run(ctx); err != nil {
			t.Errorf("Run() = %v after its context had ended", err)
		}
	})
}

func TestAFatalErrorEndsTheLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, reconcile.Config{}, func(r *rig) { r.answer(reconcile.Result{}, reconcile.Fatal(errFull)) })
		r.begin()
		if err := <-r.ended; err != errFull { //nolint:errorlint // this error itself
			t.Errorf("Run() = %v", err)
		}
	})
	assert.ErrorIs(t, reconcile.Fatal(errFull), errFull)
}

func TestEachStepIsObserved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := start(t, reconcile.Config{}, func(*rig) { pace.Pause(t.Context(), time.Second) })
		r.after(time.Minute)
		r.answer(reconcile.Result{}, errFull)
		r.Wake()
		r.after(time.Second)
		if diff := cmp.Diff([]string{"labels 1s <nil>", "labels 1s no space left on device"}, r.observed); diff != "" {
			t.Errorf("observed (-want +got):\n%s", diff)
		}
	})
}
