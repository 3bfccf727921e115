package apply_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"outrigger.dev/agents/mig-manager/internal/apply"
	"outrigger.dev/agents/mig-manager/internal/plan"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/mig"
)

// untouched checks that an error left everything as it was.
func (r *rig) untouched(before []string) {
	r.t.Helper()
	expect(r.t, "states", r.state(), before)
	if r.journal() {
		r.t.Error("there is a journal")
	}
}

func TestABusyInstanceIsNamed(t *testing.T) {
	r := newRig(t, "--gpus=2", "--model=h100-80")
	r.run("mig mode all on")
	r.run("mig create 0 3g.40gb@4 2g.20gb@0")
	r.run("mig create 1 7g.80gb")
	before := r.state()
	for _, i := range r.gpus()[0].Layout {
		if i.Placement.Start == 0 {
			r.run("proc add --pid %d --instance %d/%d 0", os.Getpid(), i.ID, i.Compute[0].ID)
		}
	}
	// GPU 1 could be changed: all or none is touched.
	res, err := r.a.Apply(t.Context(), r.ask(map[int]string{0: "3g.40gb 1g.10gb 1g.10gb 1g.10gb", 1: "3g.40gb"}))
	busy, ok := errors.AsType[*apply.InUse](err)
	if !ok || len(res.GPUs) > 0 || busy.Index != 0 || len(busy.Holders) != 1 {
		t.Fatalf("Apply() = %+v, %v", res, err)
	}
	if text := err.Error(); !strings.Contains(text, "process "+strconv.Itoa(os.Getpid())+" (apply.test)") || !strings.Contains(text, "GPU instance") {
		t.Errorf("the error does not name the process: %s", text)
	}
	r.untouched(before)
	// What leaves the busy instance alone is done.
	if _, err := r.a.Apply(t.Context(), r.ask(map[int]string{0: "2g.20gb 1g.10gb"})); err != nil {
		t.Error(err)
	}
	if got := r.state()[0]; !strings.Contains(got, "2g.20gb@0:2/2@0") || strings.Contains(got, "3g") {
		t.Errorf("GPU 0 is %s", got)
	}
}

// TestWhatIsHeldIsSpared: a container that has not started its process holds its instance too.
func TestWhatIsHeldIsSpared(t *testing.T) {
	for start := range 2 {
		t.Run(strconv.Itoa(start), func(t *testing.T) {
			r := newRig(t, "--gpus=1", "--model=a30")
			r.run("mig mode 0 on")
			r.run("reset --takes 0s 0")
			r.run("mig create 0 2g.12gb@0 2g.12gb@2")
			g := r.gpus()[0]
			held := g.Layout[start]
			req := r.ask(map[int]string{0: "2g.12gb 1g.6gb 1g.6gb"})
			r.held = map[gpu.UUID][]mig.Holder{g.UUID: {train(held.ID, held.Compute[0].ID)}}
			if _, err := r.a.Apply(t.Context(), req); err != nil {
				t.Fatal(err)
			}
			if now := r.gpus()[0].Layout; !slices.ContainsFunc(now, held.Equal) {
				t.Errorf("%s at %d is gone: %v", held.Profile, held.Placement.Start, now)
			}
		})
	}
}

// TestWhatAContainerHoldsIsNotTaken, whether it was there at the plan, or came since. Nothing is changed
// either while the containers are not known. They are asked for only if something has to go.
func TestWhatAContainerHoldsIsNotTaken(t *testing.T) {
	r := newRig(t, "--gpus=2", "--model=h100-80")
	r.run("mig mode all on")
	r.run("mig create 0 3g.40gb@4")
	before, more, less := r.state(), r.ask(map[int]string{0: "3g.40gb 1g.10gb"}), r.ask(map[int]string{0: "7g.80gb"})
	if p, err := r.a.Plan(t.Context(), more); err != nil || p.Disturbs() || r.asked > 0 {
		t.Errorf("Plan() = %+v, %v, the containers were asked for %d times", p, err, r.asked)
	}
	p, err := r.a.Plan(t.Context(), less)
	if err != nil || !p.Disturbs() || len(p.Holders()) > 0 || r.asked != 1 {
		t.Errorf("Plan() = %+v, %v, the containers were asked for %d times", p, err, r.asked)
	}
	g := r.gpus()[0]
	in := g.Layout[0]
	r.held = map[gpu.UUID][]mig.Holder{g.UUID: {train(in.ID, in.Compute[0].ID)}}
	if _, err := r.a.Apply(t.Context(), less); err == nil || !strings.Contains(err.Error(), "a container of pod default/train on GPU instance") {
		t.Errorf("Apply() = %v, want that a container holds it back", err)
	}
	if p, err = r.a.Plan(t.Context(), less); err != nil || !slices.Equal(p.Holders(), r.held[g.UUID]) {
		t.Errorf("Plan() = %+v, %v, want the container", p, err)
	}
	r.held, r.unknown = nil, errors.New("no kubelet")
	_, err = r.a.Apply(t.Context(), less)
	if _, is := errors.AsType[*apply.HoldersUnknown](err); !is || !errors.Is(err, r.unknown) {
		t.Errorf("Apply() = %v, want an error while the containers are not known", err)
	}
	if p, err := r.a.Plan(t.Context(), less); err != nil || !errors.Is(p.Unknown, r.unknown) {
		t.Errorf("Plan() = %+v, %v, want that the containers are unknown", p, err)
	}
	r.untouched(before)
	r.unknown = nil
	if _, err := r.a.Apply(t.Context(), less); err != nil {
		t.Error(err)
	}
}

// A mode change takes the whole GPU from its processes.
func TestAModeChangeOfABusyGPU(t *testing.T) {
	for name, model := range map[string]string{"at once": "h100-80", "by a reset": "a30"} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, "--gpus=1", "--model="+model)
			before := r.state()
			r.run("proc add --pid %d 0", os.Getpid())
			_, err := r.a.Apply(t.Context(), r.ask(map[int]string{0: ""}))
			if _, ok := errors.AsType[*apply.InUse](err); !ok {
				t.Fatalf("Apply() = %v", err)
			}
			r.untouched(before)
		})
	}
}

// Something that the driver does not list, such as a handle of another program, holds the
// instance for longer than the patience.
func TestAnInstanceThatStaysInUseIsRolledBack(t *testing.T) {
	r := newRig(t, "--gpus=1", "--model=h100-80")
	r.run("mig mode 0 on")
	r.run("mig create 0 3g.40gb@4 2g.20gb@0")
	before, req := r.state(), r.ask(map[int]string{0: "3g.40gb 4g.40gb"})
	r.run("set nvmlGpuInstanceDestroy.return=19")
	res, err := r.a.Apply(t.Context(), req)
	if busy, ok := errors.AsType[*apply.InUse](err); !ok || !strings.Contains(busy.Error(), "lists no process") {
		t.Errorf("Apply() = %v", err)
	}
	expect(t, "outcomes", outcomes(res), []apply.Outcome{apply.RolledBack})
	r.untouched(before)
}

// What can be brought neither forward nor back stays in the journal.
func TestWhatCannotBeRolledBackIsRecoveredLater(t *testing.T) {
	for name, forward := range map[string]bool{"forward": true, "back": false} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, "--gpus=1", "--model=h100-80")
			r.run("mig mode 0 on")
			r.run("mig create 0 3g.40gb@4 2g.20gb@0")
			before, req := r.state(), r.ask(map[int]string{0: "3g.40gb 4g.40gb"})
			r.run("set nvmlDeviceCreateGpuInstanceWithPlacement.return=999")
			res, err := r.a.Apply(t.Context(), req)
			assert.ErrorContains(t, err, "the rollback failed")
			expect(t, "outcomes", outcomes(res), []apply.Outcome{apply.Unfinished})
			r.run("set nvmlDeviceCreateGpuInstanceWithPlacement.return=0")
			if !forward {
				req.Desired = nil
			}
			if _, err := r.a.Recover(t.Context(), req); err != nil {
				t.Fatal(err)
			}
			if forward {
				before = []string{"true true 4g.40gb@0:4/4@0 3g.40gb@4:4/3@0"}
			}
			r.untouched(before)
		})
	}
}

// What keeps a GPU from going back for a second only does not leave it between two layouts. After a
// SIGTERM nothing is waited for.
func TestARollbackWaitsForWhatPasses(t *testing.T) {
	for name, c := range map[string]struct {
		patience, heals, stops time.Duration
		want                   apply.Outcome
	}{
		"it passes":       {10 * time.Second, time.Second, time.Hour, apply.RolledBack},
		"after a SIGTERM": {time.Hour, time.Hour, 300 * time.Millisecond, apply.Unfinished},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, "--gpus=1", "--model=h100-80")
			r.run("mig mode 0 on")
			r.run("mig create 0 3g.40gb@4 2g.20gb@0")
			req := r.ask(map[int]string{0: "3g.40gb 4g.40gb"})
			a, err := apply.New(apply.Config{Session: r.session, StateDir: filepath.Join(r.dir, "state"), Reset: r, Patience: c.patience})
			assert.NilError(t, err)
			ctx, cancel := context.WithCancel(t.Context())
			defer time.AfterFunc(c.stops, cancel).Stop()
			r.run("set nvmlDeviceCreateGpuInstanceWithPlacement.return=999")
			defer time.AfterFunc(c.heals, func() { r.run("set nvmlDeviceCreateGpuInstanceWithPlacement.return=0") }).Stop()
			res, _ := a.Apply(ctx, req)
			expect(t, "outcomes", outcomes(res), []apply.Outcome{c.want})
		})
	}
}

func TestWithoutAListOfProcessesNothingIsTouched(t *testing.T) {
	r := newRig(t, "--gpus=1", "--model=h100-80")
	before := r.state()
	r.run("set nvmlDeviceGetComputeRunningProcesses_v3.return=3")
	if _, err := r.a.Apply(t.Context(), r.ask(map[int]string{0: ""})); err == nil || !strings.Contains(err.Error(), "list processes") {
		t.Errorf("Apply() = %v", err)
	}
	r.untouched(before)
}

func TestAnInfeasibleRequestTouchesNothing(t *testing.T) {
	r := newRig(t, "--gpus=2", "--model=h100-80")
	r.run("mig mode 0 on")
	before := r.state()
	_, err := r.a.Apply(t.Context(), r.ask(map[int]string{0: "3g.40gb", 1: "4g.40gb 4g.40gb"}))
	if err == nil || !strings.Contains(err.Error(), "GPU 1 (") || !strings.Contains(err.Error(), "4g.40gb") {
		t.Fatalf("Apply() = %v", err)
	}
	r.untouched(before)
}

// What only media engines rule out is refused once NVML has been asked whether it has room for it.
func TestTheDriverHasTheLastWordOnEngines(t *testing.T) {
	r := newRig(t, "--gpus=1", "--model=a30")
	r.run("mig mode 0 on")
	r.run("reset --takes 0s 0")
	r.run("mig create 0 1g.6gb+me@0")
	before := r.state()
	for want, asks := range map[string]int{"1g.6gb+me 2g.12gb+me": 5, "4g.24gb 1g.6gb": 0} {
		req := r.ask(map[int]string{0: want})
		r.node.Calls()
		_, err := r.a.Apply(t.Context(), req)
		if _, infeasible := errors.AsType[*plan.Infeasible](err); !infeasible {
			t.Errorf("%s: Apply() = %v", want, err)
		}
		if n := r.node.Calls()["nvmlDeviceGetGpuInstanceRemainingCapacity"]; n != asks {
			t.Errorf("%s: NVML was asked %d times for room, want %d", want, n, asks)
		}
	}
	r.untouched(before)
}

func TestWithoutAJournalNothingIsTouched(t *testing.T) {
	r := newRig(t, "--gpus=1", "--model=h100-80")
	before := r.state()
	// A file where the folder should be: as on a full disk, the journal cannot be written.
	assert.NilError(t, os.WriteFile(filepath.Join(r.dir, "state"), nil, 0o600))
	_, err := r.a.Apply(t.Context(), r.ask(map[int]string{0: "3g.40gb"}))
	assert.ErrorContains(t, err, "journal")
	expect(t, "states", r.state(), before)
}

func TestAGarbledJournalIsMovedAside(t *testing.T) {
	r := newRig(t, "--gpus=1", "--model=h100-80")
	path := filepath.Join(r.dir, "state", "journal.json")
	for _, text := range []string{"{", `{"version":7}`, `{"version":1,"gpus":[{"uuid":""}]}`, "\x00\x00"} {
		assert.NilError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		assert.NilError(t, os.WriteFile(path, []byte(text), 0o600))
		if res, err := r.a.Recover(t.Context(), apply.Request{}); err != nil || len(res.GPUs) > 0 {
			t.Errorf("%q: Recover() = %+v, %v", text, res, err)
		}
		if aside, err := os.ReadFile(path + ".unreadable"); err != nil || string(aside) != text {
			t.Errorf("%q: moved aside: %q, %v", text, aside, err)
		}
		if !strings.Contains(r.log.String(), "journal.json.unreadable") {
			t.Errorf("%q: the log does not say so: %s", text, r.log)
		}
	}
	if _, err := r.a.Apply(t.Context(), r.ask(map[int]string{0: "3g.40gb"})); err != nil {
		t.Error(err)
	}
}

// A process that ended right before it removed the journal leaves the goal of then: what is
// rolled back to is that, and not what was before.
func TestAJournalThatIsDoneIsNotRolledBack(t *testing.T) {
	r := newRig(t, "--gpus=1", "--model=h100-80")
	r.run("mig mode 0 on")
	r.run("mig create 0 3g.40gb@4 2g.20gb@0")
	before := r.state()
	r.interrupted(mig.State{}, r.gpus()[0].State)
	r.run("set nvmlGpuInstanceDestroy.return=19")
	if res, err := r.a.Apply(t.Context(), r.ask(map[int]string{0: "3g.40gb 4g.40gb"})); err == nil {
		t.Errorf("Apply() = %+v", res)
	}
	r.untouched(before)
}

// While the lease is another's, nothing is touched.
func TestTheLeaseOfAnother(t *testing.T) {
	r := newRig(t, "--gpus=1", "--model=h100-80")
	req, before := r.ask(map[int]string{0: "3g.40gb"}), r.state()
	r.idle()
	grant, err := lease(r.dir).Claim(t.Context(), "driver-loader", "a new driver", limit)
	assert.NilError(t, err)
	if _, err := r.a.Apply(t.Context(), req); err == nil || !strings.Contains(err.Error(), "driver-loader (a new driver)") {
		t.Errorf("Apply() = %v", err)
	}
	assert.NilError(t, grant.Release())
	r.untouched(before)
	if _, err := r.a.Apply(t.Context(), req); err != nil {
		t.Error(err)
	}
	if c, ok := lease(r.dir).Claimed(); ok {
		t.Errorf("the lease is still claimed: %s", c)
	}
}

// resetFunc is a Resetter.
type resetFunc func() error

func (f resetFunc) Reset(context.Context, []mig.GPU) error { return f() }
