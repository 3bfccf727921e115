package agent_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/urfave/cli/v2"

	"outrigger.dev/pkg/agent"
	"outrigger.dev/pkg/pace"
)

// record is what happens, in order.
type record struct {
	mu     sync.Mutex
	events []string
}

func (r *record) add(event string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, event)
}

// part returns a part that records what the chassis calls, and the channel with which
// its Run says that it has started.
func (r *record) part(name string) (agent.Part, chan struct{}) {
	started := make(chan struct{})
	return agent.Part{
		Name: name,
		Run: func(ctx context.Context) error {
			r.add("run " + name)
			close(started)
			<-ctx.Done()
			return ctx.Err()
		},
		Started:  started,
		Withdraw: func(ctx context.Context) error { r.add("withdraw " + name); return ctx.Err() },
		Close:    func() error { r.add("close " + name); return nil },
	}, started
}

// owner is an Owner that is gone, or not.
type owner struct {
	record *record
	gone   bool
	// watching is closed when Watch begins, and ended when it ends.
	watching, ended chan struct{}
}

func newOwner(r *record, gone bool) *owner {
	return &owner{record: r, gone: gone, watching: make(chan struct{}), ended: make(chan struct{})}
}

func (o *owner) Watch(ctx context.Context) {
	close(o.watching)
	<-ctx.Done()
	close(o.ended)
}

func (o *owner) Gone(ctx context.Context) bool {
	o.record.add("ask")
	select {
	case <-o.ended:
		o.record.add("the watch has ended")
	default:
	}
	return o.gone && ctx.Err() == nil
}

// runAgent runs an agent until it ends, and returns its exit code and its log.
func runAgent(ctx context.Context, a *agent.Agent, args ...string) (int, string) {
	app := testApp()
	app.New = func(*cli.Context, *slog.Logger) (*agent.Agent, error) { return a, nil }
	logs := newBuffer()
	code := agent.Exec(ctx, app, append([]string{"x"}, args...), io.Discard, logs)
	return code, logs.String()
}

func TestParts(t *testing.T) {
	for name, gone := range map[string]bool{"the owner is gone": true, "the owner is there": false} {
		t.Run(name, func(t *testing.T) {
			r := &record{}
			first, _ := r.part("first")
			second, _ := r.part("second")
			last, running := r.part("last")
			own := newOwner(r, gone)
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			go func() { <-running; <-own.watching; stop() }()
			held := agent.Part{Name: "held", Close: func() error { r.add("close held"); return nil }}
			code, logs := runAgent(ctx, &agent.Agent{Parts: []agent.Part{first, second, held, last}, Owner: own})
			if code != 0 || !strings.Contains(logs, "msg=stopped") {
				t.Errorf("exit code %d: %s", code, logs)
			}
			want := []string{"run first", "run second", "run last", "ask"}
			if gone {
				want = append(want, "withdraw last", "withdraw second", "withdraw first")
			}
			want = append(want, "close last", "close held", "close second", "close first")
			if diff := cmp.Diff(want, r.events); diff != "" {
				t.Errorf("what happens (-want +got):\n%s", diff)
			}
			<-own.ended
		})
	}
}

func TestToWithdrawMayTakeLongerThanToStop(t *testing.T) {
	r := &record{}
	slow, running := r.part("slow")
	slow.Withdraw = func(ctx context.Context) error {
		if pace.Pause(ctx, 2*time.Second) {
			r.add("withdraw slow")
		}
		return ctx.Err()
	}
	own := newOwner(r, true)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go func() { <-running; stop() }()
	code, logs := runAgent(ctx, &agent.Agent{Parts: []agent.Part{slow}, Owner: own})
	want := []string{"run slow", "ask", "withdraw slow", "close slow"}
	if diff := cmp.Diff(want, r.events); diff != "" || code != 0 || !strings.Contains(logs, "msg=stopped\n") {
		t.Errorf("exit code %d: %s (-want +got):\n%s", code, logs, diff)
	}
}

func TestAPartThatFailsEndsTheAgent(t *testing.T) {
	r := &record{}
	good, _ := r.part("good")
	good.Close = func() error { return errors.New("close the source: it hangs") }
	good.Withdraw = func(context.Context) error { return errors.New("remove the labels: forbidden") }
	bad := agent.Part{Name: "bad", Started: make(chan struct{}), Run: func(context.Context) error { return errors.New("serve GPUs: the disk is full") }}
	never, _ := r.part("never")
	own := newOwner(r, true)
	code, logs := runAgent(t.Context(), &agent.Agent{Parts: []agent.Part{good, bad, never}, Owner: own})
	if code != 1 || slices.Contains(r.events, "run never") {
		t.Errorf("exit code %d, and the events %q", code, r.events)
	}
	for _, part := range []string{
		`msg="stopped with an error" err="serve GPUs: the disk is full; close the source: it hangs"`,
		`msg="cannot remove the published state: remove it by hand, as the documentation of the agent describes" part=good err="remove the labels: forbidden"`,
	} {
		if !strings.Contains(logs, part) {
			t.Errorf("no %q in:\n%s", part, logs)
		}
	}
}

func TestAnAgentEndsWithItsLastPart(t *testing.T) {
	r := &record{}
	closed, _ := r.part("closed")
	closed.Run = nil
	closed.Started = nil
	once := agent.Part{Name: "once", Run: func(context.Context) error { r.add("once"); return nil }}
	code, logs := runAgent(t.Context(), &agent.Agent{Once: true, Parts: []agent.Part{once, closed, once}}, "--listen=127.0.0.1:0")
	want := []string{"once", "once", "close closed"}
	if diff := cmp.Diff(want, r.events); diff != "" || code != 0 || strings.Contains(logs, "serving") {
		t.Errorf("exit code %d: %s (-want +got):\n%s", code, logs, diff)
	}
}

func TestProbesOfParts(t *testing.T) {
	part := func(name string) agent.Part {
		return agent.Part{
			Name: name, Ready: func() error { return errors.New(name + " waits") },
			Health: map[string]func() error{name: func() error { return nil }},
		}
	}
	app := testApp()
	app.New = func(*cli.Context, *slog.Logger) (*agent.Agent, error) {
		run := agent.Part{Name: "run", Run: func(ctx context.Context) error { <-ctx.Done(); return nil }}
		return &agent.Agent{Parts: []agent.Part{part("b"), part("a"), run}}, nil
	}
	url, stop := serveApp(t, app)
	defer stop()
	if code, body := fetch(t, url+"/readyz"); code != 503 || body != "b waits; a waits\n" {
		t.Errorf("/readyz answers %d %q", code, body)
	}
	if code, body := fetch(t, url+"/healthz"); code != 200 || body != "a: ok\nb: ok\nok\n" {
		t.Errorf("/healthz answers %d %q", code, body)
	}
}
