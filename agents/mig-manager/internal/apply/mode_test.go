package apply_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"outrigger.dev/agents/mig-manager/internal/apply"
)

func TestAResetThatDoesNotHelpNeedsAReboot(t *testing.T) {
	for name, c := range map[string]struct {
		reset  error
		reason string
	}{
		"the mode stays pending": {nil, "still pending after a reset"},
		"there is no reset":      {errors.New("reset is not supported in a virtual machine"), "not supported in a virtual machine"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, "--gpus=1", "--model=a30")
			req := r.ask(map[int]string{0: "2g.12gb"})
			res, err := r.with(resetFunc(func() error { return c.reset })).Apply(t.Context(), req)
			reboot, ok := errors.AsType[*apply.RebootError](err)
			if !ok || !strings.Contains(reboot.Reason, c.reason) {
				t.Fatalf("Apply() = %+v, %v", res, err)
			}
			expect(t, "outcomes", outcomes(res), []apply.Outcome{apply.NeedsReboot})
			expect(t, "states", r.state(), []string{"false true"})
			if !r.journal() {
				t.Fatal("the journal has lost the GPU")
			}
			r.idle()
			r.run("reboot")
			res, err = r.a.Recover(t.Context(), req)
			assert.NilError(t, err)
			expect(t, "outcomes", outcomes(res), []apply.Outcome{apply.Applied})
			expect(t, "states", r.state(), []string{"true true 2g.12gb@2:2/2@0"})
		})
	}
}

func TestAGPUThatIsBusyAtItsResetIsRolledBack(t *testing.T) {
	r := newRig(t, "--gpus=1", "--model=a30")
	_, err := r.with(resetFunc(func() error { return apply.ErrBusy })).Apply(t.Context(), r.ask(map[int]string{0: "2g.12gb"}))
	if busy, ok := errors.AsType[*apply.InUse](err); !ok || !strings.Contains(busy.Error(), "lists no process") {
		t.Errorf("Apply() = %v", err)
	}
	r.untouched([]string{"false false"})
}

func TestSkipReset(t *testing.T) {
	r := newRig(t, "--gpus=1", "--model=a30")
	req := r.ask(map[int]string{0: "2g.12gb"})
	req.SkipReset = true
	res, err := r.a.Apply(t.Context(), req)
	assert.NilError(t, err)
	expect(t, "outcomes", outcomes(res), []apply.Outcome{apply.Pending})
	r.untouched([]string{"false true"})
	// What is pending is taken back without a reset.
	if _, err := r.with(resetFunc(func() error { return errors.New("a reset") })).Apply(t.Context(), r.ask(map[int]string{0: "off"})); err != nil {
		t.Error(err)
	}
	r.untouched([]string{"false false"})
}

func TestModeOnly(t *testing.T) {
	r := newRig(t, "--gpus=2", "--model=h100-80")
	r.run("mig mode 0 on")
	r.run("mig create 0 2g.20gb@2")
	req := r.ask(map[int]string{0: "7g.80gb", 1: "7g.80gb"})
	req.ModeOnly = true
	res, err := r.a.Apply(t.Context(), req)
	assert.NilError(t, err)
	expect(t, "outcomes", outcomes(res), []apply.Outcome{apply.Unchanged, apply.Applied})
	r.untouched([]string{"true true 2g.20gb@2:2/2@0", "true true"})
}

// HGX A100: the GPUs behind the switches are reset together, and get their layouts back.
func TestAFabricIsResetTogether(t *testing.T) {
	r := newRig(t, "--gpus=3", "--model=a100-80")
	r.run("mig mode 1 on")
	r.run("reset --takes 0s 1")
	r.run("mig create 1 3g.40gb@4 1c.2g.20gb@0")
	r.run("proc add --pid %d 2", os.Getpid())
	before := r.state()
	_, err := r.a.Apply(t.Context(), r.ask(map[int]string{0: "7g.80gb"}))
	if busy, ok := errors.AsType[*apply.InUse](err); !ok || busy.Index != 2 {
		t.Fatalf("Apply() = %v, though GPU 2 is busy", err)
	}
	r.untouched(before)
	r.run("proc end 2 %d", os.Getpid())
	res, err := r.a.Apply(t.Context(), r.ask(map[int]string{0: "7g.80gb"}))
	assert.NilError(t, err)
	expect(t, "outcomes", outcomes(res), []apply.Outcome{apply.Applied, apply.Applied, apply.Applied})
	r.untouched([]string{"true true 7g.80gb@0:8/7@0", before[1], before[2]})
	if got := strings.Count(r.run("show --json"), `"resets": 1`); got != 2 { // GPU 1 was reset twice
		t.Errorf("%d GPUs were reset once, want 2", got)
	}
}

// A GPU that is lost amid the change does not stop the others, and is recovered when it is
// back.
func TestAGPUIsLostAmidTheChange(t *testing.T) {
	r := newRig(t, "--gpus=2", "--model=a30")
	req := r.ask(map[int]string{0: "2g.12gb", 1: "2g.12gb"})
	resets := 0
	a := r.with(resetFunc(func() error {
		r.run("reset --takes 0s %d", resets)
		if resets++; resets == 1 {
			r.run("lose 0")
		}
		return nil
	}))
	res, err := a.Apply(t.Context(), req)
	if err == nil || !strings.Contains(err.Error(), "GPU 0 (") || strings.Contains(err.Error(), "GPU 1 (") {
		t.Errorf("Apply() = %v", err)
	}
	expect(t, "outcomes", outcomes(res), []apply.Outcome{apply.Unfinished, apply.Applied})
	if got := r.state()[1]; got != "true true 2g.12gb@2:2/2@0" {
		t.Errorf("GPU 1 is %s", got)
	}
	if _, err := r.a.Recover(t.Context(), req); err == nil || !strings.Contains(err.Error(), "GPU 0 (") || !r.journal() {
		t.Errorf("Recover() = %v, journal %t, while the GPU is lost", err, r.journal())
	}
	r.run("heal 0")
	r.idle()
	if _, err := r.a.Recover(t.Context(), req); err != nil {
		t.Error(err)
	}
	r.untouched([]string{"true true 2g.12gb@2:2/2@0", "true true 2g.12gb@2:2/2@0"})
}

// A SIGTERM amid a change does not leave half of it.
func TestWhatHasBegunIsBroughtToAnEnd(t *testing.T) {
	r := newRig(t, "--gpus=1", "--model=a30")
	ctx, cancel := context.WithCancel(t.Context())
	a := r.with(resetFunc(func() error {
		cancel()
		r.run("reset --takes 0s 0")
		return nil
	}))
	if res, err := a.Apply(ctx, r.ask(map[int]string{0: "2g.12gb"})); err != nil {
		t.Errorf("Apply() = %+v, %v", res, err)
	}
	r.untouched([]string{"true true 2g.12gb@2:2/2@0"})
}

// A step that fails on one GPU does not undo the others.
func TestEachGPUIsATransactionOfItsOwn(t *testing.T) {
	r := newRig(t, "--gpus=3", "--model=h100-80")
	r.run("mig mode all on")
	r.run("mig create all 3g.40gb@4 2g.20gb@0")
	before := r.state()
	r.run("set nvmlDeviceCreateGpuInstanceWithPlacement.return=23@2")
	res, err := r.a.Apply(t.Context(), r.ask(map[int]string{0: "3g.40gb 4g.40gb", 1: "3g.40gb 4g.40gb", 2: "3g.40gb 4g.40gb"}))
	if err == nil || !strings.Contains(err.Error(), "GPU 1 (") || strings.Contains(err.Error(), "GPU 0 (") {
		t.Errorf("Apply() = %v", err)
	}
	expect(t, "outcomes", outcomes(res), []apply.Outcome{apply.Applied, apply.RolledBack, apply.Applied})
	done := "true true 4g.40gb@0:4/4@0 3g.40gb@4:4/3@0"
	r.untouched([]string{done, before[1], done})
}

// A mode that takes effect with a reset is pending also while something has the GPU open, as
// nvidia-persistenced has: whether that is in the way, the reset says.
func TestAModeIsPendingWhileTheGPUIsOpen(t *testing.T) {
	r := newRig(t, "--gpus=1", "--model=a30")
	r.run("proc add --pid %d 0", os.Getpid())
	req := r.ask(map[int]string{0: "2g.12gb"})
	req.SkipReset = true
	res, err := r.a.Apply(t.Context(), req)
	assert.NilError(t, err)
	expect(t, "outcomes", outcomes(res), []apply.Outcome{apply.Pending})
	r.untouched([]string{"false true"})
}

// What a driver that hangs has kept from its end by the limit is not continued when the driver
// answers again: the lease is no longer held then.
func TestNothingIsChangedAfterTheLimit(t *testing.T) {
	r := newRig(t, "--gpus=1", "--model=a30")
	req := r.ask(map[int]string{0: "2g.12gb 2g.12gb"})
	a, err := apply.New(apply.Config{
		Session: r.session, StateDir: filepath.Join(r.dir, "state"), Limit: time.Second,
		Reset: resetFunc(func() error {
			r.run("reset --takes 0s 0")
			r.run("set latency=2s")
			return nil
		}),
	})
	assert.NilError(t, err)
	res, err := a.Apply(t.Context(), req)
	r.run("set latency=0s")
	if err == nil {
		t.Fatal("the change has ended in its time")
	}
	expect(t, "outcomes", outcomes(res), []apply.Outcome{apply.Unfinished})
	<-time.After(3 * time.Second) // the call that hung has answered
	expect(t, "states", r.state(), []string{"true true"})
	if _, err := r.a.Recover(t.Context(), req); err != nil {
		t.Error(err)
	}
	r.untouched([]string{"true true 2g.12gb@0:2/2@0 2g.12gb@2:2/2@0"})
}

// Who uses a GPU is asked again right before it is touched: GPUs before it may have taken their time.
func TestHoldersAreAskedForRightBefore(t *testing.T) {
	r := newRig(t, "--gpus=2", "--model=h100-80")
	req := r.ask(map[int]string{0: "7g.80gb", 1: "7g.80gb"})
	// For two GPUs: before the lease is claimed, under it, and before each is touched.
	r.run("set nvmlDeviceGetComputeRunningProcesses_v3.return=999@6")
	r.node.Calls()
	res, err := r.a.Apply(t.Context(), req)
	assert.ErrorContains(t, err, "list processes")
	expect(t, "outcomes", outcomes(res), []apply.Outcome{apply.Applied, apply.RolledBack})
	if n := r.node.Calls()["nvmlDeviceSetMigMode"]; n != 1 {
		t.Errorf("the mode was set %d times, want that of GPU 0 only", n)
	}
	r.untouched([]string{"true true 7g.80gb@0:8/7@0", "false false"})
}

// A GPU that stops to answer once the lease is held does not stop the change of the others.
func TestAGPUThatDoesNotAnswerIsLeftOut(t *testing.T) {
	for name, fault := range map[string]string{
		"as it is read again":      "nvmlDeviceGetMigMode.return=15@3",
		"when it is not listed":    "nvmlDeviceGetHandleByIndex_v2.return=15@3",
		"for its processes":        "nvmlDeviceGetComputeRunningProcesses_v3.return=15@3",
		"for its processes, first": "nvmlDeviceGetComputeRunningProcesses_v3.return=15@1",
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, "--gpus=2", "--model=h100-80")
			req := r.ask(map[int]string{0: "7g.80gb", 1: "7g.80gb"})
			r.idle() // what comes first is the reading before the lease
			r.run("set %s", fault)
			res, err := r.a.Apply(t.Context(), req)
			if err == nil || !strings.Contains(err.Error(), "GPU 0 (") || strings.Contains(err.Error(), "GPU 1 (") || !strings.Contains(err.Error(), "leaving it unchanged") {
				t.Errorf("Apply() = %v", err)
			}
			expect(t, "outcomes", outcomes(res), []apply.Outcome{apply.Unreadable, apply.Applied})
			r.untouched([]string{"false false", "true true 7g.80gb@0:8/7@0"})
		})
	}
}
