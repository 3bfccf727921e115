package apply_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"outrigger.dev/agents/mig-manager/internal/apply"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/mig"
)

// scenario is a change of GPU 0 of two. GPU 1 must not be touched.
type scenario struct {
	model string
	// on are the instances of GPU 0 before, as gpu-sim takes them, or "off".
	on string
	// want is what the change asks for, and mode that it changes the MIG mode.
	want string
	mode bool
}

func scenarios() map[string]scenario {
	return map[string]scenario{
		"a layout changes":              {"h100-80", "3g.40gb@4 1c.2g.20gb@0 1g.10gb@2", "1c.3g.40gb 1c.3g.40gb 1g.10gb 1g.10gb 1g.10gb", false},
		"the mode is turned on":         {"h100-80", "off", "3g.40gb 1c.3g.40gb", true},
		"the mode is turned on, reset":  {"a30", "off", "2g.12gb 1g.6gb", true},
		"the mode is turned off, reset": {"a30", "2g.12gb@0 1g.6gb@2", "off", true},
	}
}

// prepared is a scenario on a node.
type prepared struct {
	*rig
	scenario
	req apply.Request
	// before and after are the states of both GPUs.
	before, after []string
	// calls is how often the change calls NVML.
	calls int
}

// prepare creates a node, and does the change once without a fault.
func (s scenario) prepare(t *testing.T) *prepared {
	t.Helper()
	p := &prepared{rig: newRig(t, "--gpus=2", "--model="+s.model), scenario: s}
	p.run("mig mode 1 on")
	p.run("reset --takes 0s 1")
	whole := map[string]string{"h100-80": "7g.80gb", "a30": "4g.24gb"}[s.model]
	p.run("mig create 1 %s", whole)
	p.back()
	p.before, p.req = p.state(), p.ask(map[int]string{0: s.want})
	for range 2 { // the second time, boards are known
		p.back()
		p.state() // leaves NVML initialized
		p.calls = p.rig.calls(func() {
			if _, err := p.a.Apply(t.Context(), p.req); err != nil {
				t.Fatal(err)
			}
		})
	}
	p.after = p.state()
	return p
}

// back makes GPU 0 what it was before.
func (p *prepared) back() {
	p.t.Helper()
	mode := "on"
	if p.on == "off" {
		mode = "off"
	}
	p.run("mig mode 0 on") // what is pending
	p.run("mig mode 0 %s", mode)
	if p.model == "a30" {
		p.run("reset --takes 0s 0")
	}
	if mode == "off" {
		return
	}
	if p.model != "a30" {
		p.run("mig destroy 0 all")
	}
	p.run("mig create 0 %s", p.on)
}

// settled checks that the GPUs are in the old or the new state, and returns whether it is
// the new one.
func (p *prepared) settled(what string) bool {
	p.t.Helper()
	got := p.state()
	if p.journal() {
		p.t.Errorf("%s: the journal is left, the GPUs are %v", what, got)
	}
	if slices.Equal(got, p.after) {
		return true
	}
	if !slices.Equal(got, p.before) {
		p.t.Errorf("%s: the GPUs are %q, neither as before, %q, nor as desired, %q", what, got, p.before, p.after)
	}
	return false
}

// The codes of nvmlReturn_t with which calls fail.
const (
	codeInUse   = 19
	codeLost    = 15
	codeUnknown = 999
)

// fails does the change while a call of NVML fails, and reports whether it was rolled back.
func (p *prepared) fails(n, code int) bool {
	p.t.Helper()
	// A command that changes a node writes which instances there are to its /proc: a library outside of
	// the node does not, and how often NVML is called depends on it.
	p.run("mig mode 1 on")
	p.run("set any.return=%d@%d", code, n)
	res, err := p.a.Apply(p.t.Context(), p.req)
	what := fmt.Sprintf("call %d answers %d (%v)", n, code, err)
	applied := p.settled(what)
	if applied != (err == nil) {
		p.t.Errorf("%s: as desired: %t, result %+v", what, applied, res)
	}
	if p.t.Failed() {
		p.t.Fatal(p.log)
	}
	if applied {
		p.back()
	}
	return !applied
}

// scenarioKey names the scenario of a process: a fault may leave NVML initialized, which
// another node in the same process would not survive.
const scenarioKey = "APPLY_TEST_SCENARIO"

// alone runs a scenario in a process of its own.
func alone(t *testing.T, f func(t *testing.T, s scenario)) {
	if name := os.Getenv(scenarioKey); name != "" {
		f(t, scenarios()[name])
		return
	}
	for name := range scenarios() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+strings.Split(t.Name(), "/")[0]+"$", "-test.v")
			cmd.Env = append(os.Environ(), scenarioKey+"="+name)
			out, err := cmd.CombinedOutput()
			t.Logf("%s", out)
			assert.NilError(t, err)
		})
	}
}

// At whichever call NVML fails, the GPU is as before or as desired, and the result tells which.
func TestEachCallFails(t *testing.T) {
	alone(t, func(t *testing.T, s scenario) {
		t.Helper()
		p := s.prepare(t)
		sweeps := [][]int{{codeInUse}, {codeLost, codeUnknown}}
		if p.mode {
			sweeps = [][]int{{codeInUse, codeLost, codeUnknown}}
		}
		for _, codes := range sweeps { // one code for each call, in turn
			p.back()
			failed := 0
			for n := range p.calls {
				if p.fails(n+1, codes[n%len(codes)]) {
					failed++
				}
			}
			t.Logf("codes %v: of %d calls that fail, %d end with the old state", codes, p.calls, failed)
		}
	})
}

// smiKey makes the child reset GPUs with the nvidia-smi of the node that it runs in.
const smiKey = "APPLY_TEST_SMI"

// child applies what the test asks for, until it is killed.
func child(ctx context.Context) error {
	var reset apply.Resetter = commandReset{}
	if os.Getenv(smiKey) != "" {
		reset = apply.SMI{}
	}
	session, err := openSession()
	if err != nil {
		return err
	}
	defer session.Close()
	a, err := applier(session, reset, apply.Config{})
	if err != nil {
		return err
	}
	gpus, err := a.GPUs(ctx)
	if err != nil {
		return err
	}
	_, err = a.Apply(ctx, apply.Request{Desired: wanted(gpus, os.Getenv(childKey))})
	return err
}

func wanted(gpus []mig.GPU, text string) map[gpu.UUID]mig.Desired {
	return desired(nil, gpus, map[int]string{0: text})
}

// commandReset resets GPUs with gpu-sim.
type commandReset struct{}

func (commandReset) Reset(ctx context.Context, gpus []mig.GPU) error {
	for _, g := range gpus {
		cmd := exec.CommandContext(ctx, filepath.Join(os.Getenv("APPLY_TEST_BIN"), "gpu-sim"), "reset", "--takes=0s", "--root="+os.Getenv("APPLY_TEST_ROOT"), string(g.UUID))
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
	}
	return nil
}
