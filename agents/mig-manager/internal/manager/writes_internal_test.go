package manager

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"outrigger.dev/agents/mig-manager/internal/apply"
	"outrigger.dev/pkg/cause"
	"outrigger.dev/pkg/contract"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/mig"
	"outrigger.dev/pkg/kube"
	"outrigger.dev/pkg/kube/apitest"
	"outrigger.dev/pkg/pace"
	"outrigger.dev/pkg/procowner"
)

// hour is a manager whose change waits, and a clock that the test moves.
type hour struct {
	*Manager
	api    *apitest.API
	events []string
	now    time.Time
	// writes is at how many writes the Node was read.
	writes int
	// looks counts looks at the users, and observations those at the GPUs.
	looks, observations int
	// users and busy are those whom the kubelet and an attempt find at the n-th look.
	users, busy func(n int) []mig.Holder
	// unknown is why an attempt does not know who uses the GPUs.
	unknown error
}

// Observe, Plan, Apply and Recover are those of GPUs.
func (h *hour) Observe(context.Context) (*apply.Observation, error) {
	h.observations++
	return &apply.Observation{}, nil
}

func (h *hour) Plan(context.Context, apply.Request) (apply.Plan, error) {
	h.looks++
	return apply.Plan{GPUs: []apply.Change{{Steps: []mig.Step{{Op: mig.DestroyCompute}}, Holders: h.users(h.looks)}}}, nil
}

func (h *hour) Apply(context.Context, apply.Request) (apply.Result, error) {
	if h.unknown != nil {
		return apply.Result{}, &apply.HoldersUnknown{Err: h.unknown}
	}
	return apply.Result{}, &apply.InUse{Holders: h.busy(h.looks)}
}

func (*hour) Recover(context.Context, apply.Request) (apply.Result, error) {
	return apply.Result{}, nil
}

func none(int) []mig.Holder { return nil }

// pod holds a MIG device.
func pod(n int) mig.Holder {
	return mig.Holder{Process: procowner.Process{Pod: procowner.Pod{Namespace: "team", Name: fmt.Sprintf("train-%d", n)}}, Device: "1g.10gb"}
}

func newHour(t *testing.T) *hour {
	t.Helper()
	h := &hour{api: apitest.New(t, map[string]string{ConfigLabel: "all-balanced"}), now: time.Now(), users: none, busy: none}
	h.Manager = New(Config{
		Client: apitest.Client(t, h.api.Config, h.api.Name, Name), Report: func(e kube.Event) { h.events = append(h.events, e.Reason) }, GPUs: h,
		Select: func(string, []mig.GPU) (map[gpu.UUID]mig.Desired, error) {
			return map[gpu.UUID]mig.Desired{"GPU-1": {Enabled: true}}, nil
		},
		Stays:    func(context.Context, procowner.Pod) bool { return false },
		Options:  Options{Policy: WaitForPods, Poll: 2 * time.Second},
		Contract: contract.Dir{Root: t.TempDir()}, DriverVersion: func() string { return "" }, Loaded: func() string { return "" },
		RebootFile: filepath.Join(t.TempDir(), "reboot.json"),
		Retry:      pace.Backoff{First: time.Second, Most: time.Minute}, Log: slog.New(slog.DiscardHandler),
	})
	h.Manager.now = func() time.Time { return h.now }
	return h
}

// passes lets time pass, in polls of 2 s, with the Node as it was written.
func (h *hour) passes(t *testing.T, d time.Duration) {
	t.Helper()
	for end := h.now.Add(d); h.now.Before(end); {
		if now := h.api.Requests()["patch nodes"]; now != h.writes || !h.currentNode().Known {
			h.writes = now
			h.reads(t)
		}
		r, err := h.step(t.Context())
		least, _ := kube.Delays(err) // as the loop waits
		h.now = h.now.Add(max(r.After, least, time.Second))
	}
}

// reads has the manager see the Node as the watch delivers it.
func (h *hour) reads(t *testing.T) Node {
	t.Helper()
	if _, err := h.writer.Read(t.Context()); err != nil {
		t.Fatal(err)
	}
	return h.currentNode()
}

// TestWritesOfAnHour counts the writes to the Node while a change waits for an hour, with a look
// every 2 s, and the Events.
func TestWritesOfAnHour(t *testing.T) {
	process := func(n int) mig.Holder {
		return mig.Holder{Process: procowner.Process{PID: 100 + n}, Device: "1g.10gb"}
	}
	for name, tc := range map[string]struct {
		users, busy func(n int) []mig.Holder
		writes      int
	}{
		"one pod": {users: func(int) []mig.Holder { return []mig.Holder{pod(1)} }, writes: 1},
		"pods in another order each time": {users: func(n int) []mig.Holder {
			return []mig.Holder{pod(n % 2), pod(1 - n%2)}
		}, writes: 1},
		"another process each time":                    {users: func(n int) []mig.Holder { return []mig.Holder{process(n)} }, writes: 1},
		"another process that only attempts find":      {busy: func(n int) []mig.Holder { return []mig.Holder{process(n)} }, writes: 2},
		"another pod each time":                        {users: func(n int) []mig.Holder { return []mig.Holder{pod(n)} }, writes: 36},
		"pods that end before the others start to use": {users: func(n int) []mig.Holder { return []mig.Holder{pod(1)}[:n%2] }, busy: func(int) []mig.Holder { return []mig.Holder{process(1)} }, writes: 36},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHour(t)
			if tc.users != nil {
				h.users = tc.users
			}
			if tc.busy != nil {
				h.busy = tc.busy
			}
			h.passes(t, time.Hour)
			writes := h.api.Requests()["patch nodes"]
			t.Logf("%d looks, %d writes, events %v", h.looks, writes, h.events)
			if writes > tc.writes || h.looks < 900 {
				t.Errorf("%d writes in %d looks, want %d at most", writes, h.looks, tc.writes)
			}
			if h.observations != h.looks {
				t.Errorf("the GPUs were read %d times in %d passes", h.observations, h.looks)
			}
			if !slices.Equal(h.events, []string{string(cause.MIGConfigWaiting)}) {
				t.Errorf("%d Events: %q..., want one", len(h.events), h.events[:min(3, len(h.events))])
			}
		})
	}
}

// TestAnOverloadedServerIsAskedAsItSays, about the state and the cordon, also when the loop has other
// things to do.
func TestAnOverloadedServerIsAskedAsItSays(t *testing.T) {
	for name, cordon := range map[string]bool{"the state": false, "the state and the cordon": true} {
		t.Run(name, func(t *testing.T) {
			h := newHour(t)
			h.cfg.Options.Cordon = cordon
			h.users = func(n int) []mig.Holder { return []mig.Holder{pod(n)} }
			h.api.Overload("patch nodes", 40*time.Second)
			h.passes(t, 10*time.Minute)
			writes := 1
			if cordon {
				writes = 2
			}
			if got := h.api.Requests()["patch nodes"]; got < 5 || got > writes*(10*60/40+1) {
				t.Errorf("%d requests in 10 minutes, of %d kinds, to a server that asks for pauses of 40 s", got, writes)
			}
			h.api.Answer("patch nodes", 0, "")
			h.passes(t, 2*time.Minute)
			if got := h.reads(t); got.State != Pending {
				t.Errorf("the state is %q afterwards, want %q", got.State, Pending)
			}
		})
	}
}

// TestAnIncidentIsOneEvent also while the API server rejects what is written, and for the agent that
// starts again meanwhile.
func TestAnIncidentIsOneEvent(t *testing.T) {
	h := newHour(t)
	h.users = func(n int) []mig.Holder { return []mig.Holder{pod(n)} }
	h.passes(t, time.Minute)
	for range 3 {
		h.api.Answer("patch nodes", 500, "no leader")
		h.passes(t, 3*time.Minute)
		h.api.Answer("patch nodes", 0, "")
		h.passes(t, 10*time.Minute)
	}
	again := New(h.cfg)
	again.now, h.Manager = h.Manager.now, again
	h.passes(t, time.Minute)
	if !slices.Equal(h.events, []string{string(cause.MIGConfigWaiting)}) {
		t.Errorf("Events %q, want one", h.events)
	}
	// The next wait is another incident.
	h.cfg.GPUs = settled{h}
	h.passes(t, time.Second)
	h.cfg.GPUs = h
	h.passes(t, time.Minute)
	if !slices.Equal(h.events, []string{string(cause.MIGConfigWaiting), ReasonApplied, string(cause.MIGConfigWaiting)}) {
		t.Errorf("Events %q", h.events)
	}
}

// settled has nothing to change.
type settled struct{ *hour }

func (settled) Plan(context.Context, apply.Request) (apply.Plan, error) { return apply.Plan{}, nil }

// TestARejectedWriteIsAnError, after which the loop pauses: of the state, and of the cordon.
func TestARejectedWriteIsAnError(t *testing.T) {
	h := newHour(t)
	h.users = func(int) []mig.Holder { return []mig.Holder{pod(0)} }
	h.passes(t, time.Second)
	h.cfg.Options.Cordon = true
	h.api.Before("patch nodes", func() { h.api.Update("kubectl", func(n *apitest.Node) { n.Labels["new"] = "1" }) })
	_, err := h.step(t.Context())
	if err == nil || !strings.Contains(err.Error(), "cordon node "+h.api.Name+": ") || strings.Contains(err.Error(), "publish") {
		t.Errorf("the error is %v, want one of the cordon", err)
	}
	if got := h.reads(t); got.State != Pending {
		t.Errorf("the state is %q, want %q", got.State, Pending)
	}
	h.api.Answer("patch nodes", 500, "no leader")
	h.users = func(int) []mig.Holder { return []mig.Holder{pod(1)} }
	if _, err = h.step(t.Context()); err == nil || !strings.Contains(err.Error(), "publish the state \"pending\"") || !strings.Contains(err.Error(), "cordon node "+h.api.Name+": ") {
		t.Errorf("the error is %v, want one of the state and the cordon", err)
	}
}

// TestAClaimBeforeTheWatchShowsTheLastWrite leaves what this agent wrote: the Node that the watch has
// delivered is older.
func TestAClaimBeforeTheWatchShowsTheLastWrite(t *testing.T) {
	h := newHour(t)
	h.reads(t)
	for _, gpus := range []GPUs{settled{h}, claimed{h}} {
		h.cfg.GPUs = gpus
		if _, err := h.step(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if got := h.reads(t); got.State != Success || got.Cause != "" {
		t.Errorf("the state is %q (%s), want %q", got.State, got.Cause, Success)
	}
}

// claimed cannot be read.
type claimed struct{ *hour }

func (claimed) Observe(context.Context) (*apply.Observation, error) {
	return nil, fmt.Errorf("read GPUs: %w by driver-loader", contract.ErrClaimed)
}

func TestReasonsOfEvents(t *testing.T) {
	for state, want := range map[State]cause.Code{
		Failed: cause.MIGConfigFailed, Rebooting: cause.MIGConfigRebooting, Pending: cause.MIGConfigWaiting, Success: ReasonApplied,
	} {
		var sent []kube.Event
		m := &Manager{cfg: Config{Report: func(e kube.Event) { sent = append(sent, e) }}}
		o := Observation{Wanted: "all-1g.10gb"}
		o.Node.State = "before"
		m.event(o, Action{State: state, Cause: "the cause"})
		m.event(o, Action{State: state, Cause: "the cause"})
		if len(sent) != 1 || sent[0].Reason != string(want) {
			t.Errorf("%s: %v", state, sent)
		}
	}
}

// A kubelet that is silent between the plan and the change is no failure of the config: nothing was
// tried, and the next look asks again.
func TestAnAttemptWithoutTheKubeletIsNone(t *testing.T) {
	h := newHour(t)
	h.unknown = errors.New("the kubelet does not answer")
	h.reads(t)
	h.passes(t, 10*time.Second)
	if h.attempt.Attempt.Err != nil || len(h.events) > 0 {
		t.Errorf("attempt %+v, Events %q", h.attempt.Attempt, h.events)
	}
	if h.looks < 3 {
		t.Errorf("it looked %d times", h.looks)
	}
}

// No eviction keeps the pod of a DaemonSet away, whoever finds it.
func TestPodsThatAnAttemptFindsMayStay(t *testing.T) {
	h := newHour(t)
	h.cfg.Stays = func(context.Context, procowner.Pod) bool { return true }
	h.failed(t.Context(), &apply.InUse{Holders: []mig.Holder{pod(1)}}, false)
	if users := h.attempt.Users; len(users) != 1 || !users[0].Stays {
		t.Errorf("%+v", users)
	}
}
