package apply_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"outrigger.dev/agents/mig-manager/internal/apply"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/mig"
)

// waiting returns a node whose GPU 0 waits for a reboot, and what was asked of it.
func waiting(t *testing.T, want string, args ...string) (*rig, apply.Request) {
	t.Helper()
	r := newRig(t, args...)
	req := r.ask(map[int]string{0: want})
	res, err := r.with(resetFunc(func() error { return errors.New("not supported") })).Apply(t.Context(), req)
	if _, ok := errors.AsType[*apply.RebootError](err); !ok || !r.journal() {
		t.Fatalf("Apply() = %+v, %v", res, err)
	}
	return r, req
}

// A GPU that was taken out of the node leaves the journal: no attempt could ever end.
func TestAGPUThatIsGoneIsForgotten(t *testing.T) {
	r, req := waiting(t, "2g.12gb", "--gpus=1", "--model=a30")
	path := filepath.Join(r.dir, "state", "journal.json")
	data, err := os.ReadFile(path)
	assert.NilError(t, err)
	id := r.gpus()[0].UUID
	other := "GPU-ffffffff" + string(id)[len("GPU-ffffffff"):]
	assert.NilError(t, os.WriteFile(path, []byte(strings.ReplaceAll(string(data), string(id), other)), 0o644))
	if _, err := r.a.Recover(t.Context(), req); err != nil {
		t.Error(err)
	}
	r.untouched([]string{"false true"})
	if !strings.Contains(r.log.String(), other) {
		t.Errorf("the log does not name the GPU: %s", r.log)
	}
}

// A process that does not see all GPUs, as in a container with some of them, does not know that the
// others are gone: their entries stay, until somebody recovers them who does.
func TestAGPUThatIsNotVisibleIsKept(t *testing.T) {
	r, req := waiting(t, "2g.12gb", "--gpus=2", "--model=a30")
	id, path := r.gpus()[0].UUID, filepath.Join(r.dir, "state", "journal.json")
	before, err := os.ReadFile(path)
	assert.NilError(t, err)
	log := &strings.Builder{}
	a, err := apply.New(apply.Config{
		Session: r.session, StateDir: filepath.Dir(path), Reset: r, Sys: filepath.Join(r.node.Root, "sys"), Log: slog.New(slog.NewTextHandler(log, nil)),
	})
	assert.NilError(t, err)
	r.idle()
	node := filepath.Join(r.node.Root, "dev", "nvidia0")
	assert.NilError(t, os.Rename(node, node+".hidden"))
	if gpus := r.gpus(); len(gpus) != 1 || gpus[0].UUID == id {
		t.Fatalf("GPUs: %+v", gpus)
	}
	if _, err := a.Recover(t.Context(), req); err == nil || !strings.Contains(err.Error(), string(id)) || !strings.Contains(err.Error(), "1 of the 2 GPUs") {
		t.Errorf("Recover() = %v", err)
	}
	// A change of another GPU leaves the entry alone.
	if _, err := a.Apply(t.Context(), r.ask(map[int]string{0: "4g.24gb"})); err != nil {
		t.Error(err)
	}
	if after, err := os.ReadFile(path); err != nil || string(after) != string(before) {
		t.Errorf("the journal was %s, and is %s (%v)", before, after, err)
	}
	r.idle()
	assert.NilError(t, os.Rename(node+".hidden", node))
	if _, err := a.Recover(t.Context(), req); err != nil {
		t.Error(err)
	}
	r.untouched([]string{"true true 2g.12gb@2:2/2@0", "true true 4g.24gb@0:4/4@0"})
}

// What can have been made by hand meanwhile is what the config asks: it is not made anew.
func TestWhatIsAsWantedIsNotRecovered(t *testing.T) {
	r, req := waiting(t, "2g.12gb", "--gpus=1", "--model=a30")
	r.idle()
	r.run("reboot")
	r.run("mig create 0 2g.12gb@0") // the goal has it at 2
	if _, err := r.a.Recover(t.Context(), req); err != nil {
		t.Error(err)
	}
	r.untouched([]string{"true true 2g.12gb@0:2/2@0"})
}

// A recovery that resets a fabric waits for the users of its other GPUs.
func TestARecoveryWaitsForTheUsersOfAFabric(t *testing.T) {
	r, req := waiting(t, "7g.80gb", "--gpus=2", "--model=a100-80")
	before := r.state()
	r.run("proc add --pid %d 1", os.Getpid())
	_, err := r.with(resetFunc(func() error { t.Error("the GPUs are reset"); return nil })).Recover(t.Context(), req)
	if used, ok := errors.AsType[*apply.InUse](err); !ok || used.Index != 1 {
		t.Errorf("Recover() = %v", err)
	}
	expect(t, "states", r.state(), before)
}

// While nothing can be recovered, the other agents keep their handles.
func TestARecoveryThatCannotBeginDoesNotClaimTheLease(t *testing.T) {
	r, _ := waiting(t, "2g.12gb", "--gpus=1", "--model=a30")
	r.run("lose --how=calls 0")
	share, err := lease(r.dir).Share() // a claim waits for it
	assert.NilError(t, err)
	defer share.Release()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if _, err := r.a.Recover(ctx, apply.Request{Desired: map[gpu.UUID]mig.Desired{}}); err == nil || !strings.Contains(err.Error(), "does not answer") {
		t.Errorf("Recover() = %v", err)
	}
}

// What a container holds that has no process yet is spared by a recovery, too.
func TestARecoverySparesWhatIsHeld(t *testing.T) {
	r, req := waiting(t, "2g.12gb", "--gpus=1", "--model=a30")
	r.idle()
	r.run("reboot")
	r.run("mig create 0 4g.24gb")
	before := r.state()
	g := r.gpus()[0]
	r.held = map[gpu.UUID][]mig.Holder{g.UUID: {train(g.Layout[0].ID, g.Layout[0].Compute[0].ID)}}
	if _, err := r.a.Recover(t.Context(), req); err == nil || !strings.Contains(err.Error(), "a container of pod default/train on GPU instance") {
		t.Errorf("Recover() = %v", err)
	}
	expect(t, "states", r.state(), before)
	r.held = nil
	if _, err := r.a.Recover(t.Context(), req); err != nil {
		t.Error(err)
	}
	r.untouched([]string{"true true 2g.12gb@2:2/2@0"})
}

// interrupted leaves the journal of a change of GPU 0 that has begun.
func (r *rig) interrupted(before, goal mig.State) {
	r.t.Helper()
	text, err := json.Marshal(map[string]any{"version": 1, "gpus": []any{map[string]any{
		"uuid": r.gpus()[0].UUID, "before": before, "goal": goal,
		"desired": mig.Desired{Enabled: goal.Enabled, Devices: goal.Layout.Devices()},
	}}})
	dir := filepath.Join(r.dir, "state")
	assert.NilError(r.t, errors.Join(err, os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(dir, "journal.json"), text, 0o600)))
}

// A change of the mode that was interrupted is ended once nothing uses the GPU: neither a process on
// the whole of it, nor a container to which it is allocated and that has no process yet.
func TestARecoveryOfTheModeWaitsForTheUsersOfTheGPU(t *testing.T) {
	whole, err := gpu.ParseProfile("7g.80gb")
	assert.NilError(t, err)
	divided := mig.State{Enabled: true, Pending: true, Layout: mig.Layout{{
		Profile: whole, Placement: gpu.Placement{Size: 8}, Compute: []mig.Compute{{Slices: 7, Placement: gpu.Placement{Size: 7}}},
	}}}
	for name, c := range map[string]struct {
		mode, want   string
		before, goal mig.State
	}{
		"back to off, from on without devices":   {"on", "false false", mig.State{}, divided},
		"back to on, after a reboot with it off": {"off", "true true 7g.80gb@0:8/7@0", divided, mig.State{Enabled: true, Pending: true}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, "--gpus=1", "--model=h100-80")
			r.run("mig mode 0 %s", c.mode)
			r.interrupted(c.before, c.goal)
			id, before := r.gpus()[0].UUID, r.state()
			waits := func(who string) {
				t.Helper()
				_, err := r.a.Recover(t.Context(), apply.Request{})
				if used, ok := errors.AsType[*apply.InUse](err); !ok || used.Index != 0 || !strings.Contains(err.Error(), who) {
					t.Errorf("Recover() = %v, want that it waits for %s", err, who)
				}
				expect(t, "states", r.state(), before)
			}
			r.run("proc add --pid %d 0", os.Getpid())
			waits("process " + strconv.Itoa(os.Getpid()) + " (apply.test)")
			r.run("proc end 0 %d", os.Getpid())
			r.held = map[gpu.UUID][]mig.Holder{id: {train(gpu.NoInstance, gpu.NoInstance)}}
			waits("a container of pod default/train: ")
			r.held = nil
			if _, err := r.a.Recover(t.Context(), apply.Request{}); err != nil {
				t.Error(err)
			}
			r.untouched([]string{c.want})
		})
	}
}
