package apply_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"outrigger.dev/agents/mig-manager/internal/apply"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/mig"
)

// killed runs a process that does the change, and that is killed at its n-th call of NVML.
// It reports whether it was.
func (p *prepared) killed(n int) bool {
	p.t.Helper()
	p.idle()
	p.run("set any.return=kill@%d", n)
	cmd := exec.CommandContext(p.t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), childKey+"="+p.want)
	out, err := cmd.CombinedOutput()
	exit, failed := errors.AsType[*exec.ExitError](err)
	switch {
	case err == nil && len(out) == 0:
		return false
	case failed && exit.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL:
		return true
	default:
		p.t.Fatalf("the process ended with %v: %s", err, out)
		return false
	}
}

// A process that is killed at whichever call leaves what the next one brings to the old or
// to the new state: to the new one if that is still wanted.
func TestKilledAtEachCall(t *testing.T) {
	alone(t, func(t *testing.T, s scenario) {
		t.Helper()
		p := s.prepare(t)
		wanted := []map[gpu.UUID]mig.Desired{p.req.Desired, nil}
		recovered := 0
		for n, step := 1, 8; ; n += step {
			p.back()
			if !p.killed(n) {
				break
			}
			pending := p.journal()
			if pending && step > 1 { // from here on, each call counts
				n, step = n-step, 1
			}
			res, err := p.a.Recover(t.Context(), apply.Request{Desired: wanted[n%2]})
			what := fmt.Sprintf("killed at call %d, then %v (%v)", n, outcomes(res), err)
			if err != nil {
				t.Error(what)
			}
			applied := p.settled(what)
			for _, o := range res.GPUs {
				if o.Outcome != apply.Applied {
					continue
				}
				recovered++
				if applied != (wanted[n%2] != nil) {
					t.Errorf("%s: as desired: %t, though that is wanted: %t", what, applied, !applied)
				}
			}
			if !pending && len(res.GPUs) > 0 {
				t.Errorf("%s: something was recovered without a journal", what)
			}
			if t.Failed() {
				t.Fatal(p.log)
			}
		}
		p.run("set any.return=1@0")
		if recovered == 0 {
			t.Error("no process was killed amid the change")
		}
		t.Logf("%d recoveries", recovered)
	})
}
