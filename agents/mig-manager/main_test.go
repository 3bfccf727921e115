package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"outrigger.dev/pkg/agent/agenttest"
	"outrigger.dev/pkg/gpu/simtest"
)

func TestMain(m *testing.M) { agenttest.Main(m, agenttest.Pod(main)) }

// defaults is the default config of NVIDIA's GPU Operator.
const defaults = "internal/migconfig/testdata/default-config.yaml"

// rig is a simulated node with the program, under its own name or another one.
type rig struct {
	*simtest.Node
	t       *testing.T
	program string
	run     string
	state   string
}

// newRig makes a node with GPUs of a model.
func newRig(t *testing.T, model string, gpus int) rig {
	t.Helper()
	n := simtest.New(t, "--model="+model, "--gpus="+strconv.Itoa(gpus))
	// A host without other agents has neither folder.
	dir := t.TempDir()
	return rig{Node: n, t: t, run: filepath.Join(dir, "run", "nvidia"), state: filepath.Join(dir, "state")}
}

// as is the rig with the program under another name.
func (r rig) as(name string) rig {
	r.program = filepath.Join(r.t.TempDir(), name)
	assert.NilError(r.t, os.Symlink(os.Args[0], r.program))
	return r
}

// result is what a command printed.
type result struct {
	code      int
	out, errs string
}

// do runs a command on the node.
func (r rig) do(args ...string) result { return r.with("", args...) }

// with runs a command with an input.
func (r rig) with(input string, args ...string) result {
	r.t.Helper()
	args = append(args, "--run-root", r.run, "--state-dir", r.state)
	cmd := agenttest.Command(r.t, r.Node, args...)
	if r.program != "" {
		env := cmd.Env
		cmd = r.Command(r.t.Context(), r.program, args...)
		cmd.Env = env
	}
	var out, errs bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(input), &out, &errs
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		r.t.Fatal(err)
	}
	return result{cmd.ProcessState.ExitCode(), out.String(), errs.String()}
}

// prints checks that a command succeeds, and prints exactly this.
func (r rig) prints(want string, args ...string) result {
	r.t.Helper()
	got := r.do(args...)
	if got.code != 0 || got.out != want {
		r.t.Errorf("%q: exit code %d, printed\n%swant\n%s%s", args, got.code, got.out, want, got.errs)
	}
	return got
}

// fails checks that a command fails with a code, prints nothing, and says this at the end.
func (r rig) fails(code int, want string, args ...string) {
	r.t.Helper()
	got := r.do(args...)
	lines := strings.Split(strings.TrimSpace(got.errs), "\n")
	if last := lines[len(lines)-1]; got.code != code || got.out != "" || !strings.Contains(last, want) {
		r.t.Errorf("%q: exit code %d, want %d, printed %q, said\n%swant\n%s", args, got.code, code, got.out, got.errs, want)
	}
}

// devices returns the MIG devices of the node.
func (r rig) devices() string {
	r.t.Helper()
	return r.do("export").out
}

// untouched calls f, and checks that it changes nothing on the node: no call of NVML that
// changes something.
func (r rig) untouched(f func()) {
	r.t.Helper()
	r.Calls()
	f()
	for symbol, n := range r.Calls() {
		if n > 0 && (strings.Contains(symbol, "Create") || strings.Contains(symbol, "Destroy") || strings.Contains(symbol, "DeviceSet")) {
			r.t.Errorf("%s was called %d times", symbol, n)
		}
	}
	if files, err := os.ReadDir(r.state); err != nil || len(files) > 0 {
		r.t.Errorf("the state folder has %v, %v", files, err)
	}
}

// config writes a config with one entry.
func (r rig) config(items ...string) string {
	r.t.Helper()
	path := filepath.Join(r.t.TempDir(), "config.yaml")
	text := "version: v1\nmig-configs:\n  x:\n"
	for _, i := range items {
		text += "  - {" + i + "}\n"
	}
	assert.NilError(r.t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

const (
	applied     = "MIG configuration applied successfully\n"
	restored    = "MIG configuration restored successfully\n"
	inForce     = "Selected MIG configuration currently applied\n"
	modeInForce = "Selected MIG mode settings from configuration currently applied\n"
	notInForce  = "assertion failure: selected configuration not currently applied"
)
