package apply_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"gotest.tools/v3/assert"

	"outrigger.dev/agents/mig-manager/internal/apply"
	"outrigger.dev/pkg/contract"
	"outrigger.dev/pkg/driverproc"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/mig"
	"outrigger.dev/pkg/gpu/nvml"
	"outrigger.dev/pkg/gpu/simtest"
	"outrigger.dev/pkg/procowner"
)

// childKey makes the test binary a process that applies layouts.
const childKey = "APPLY_TEST_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childKey) != "" {
		if err := child(context.Background()); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

// rig is a simulated node, and an Applier on it through the C ABI.
type rig struct {
	t       testing.TB
	node    *simtest.Node
	dir     string
	log     *strings.Builder
	a       *apply.Applier
	session *nvml.Session
	// held has the containers that hold GPUs, or unknown says why they are not known; asked is how often
	// they were asked for.
	held    map[gpu.UUID][]mig.Holder
	unknown error
	asked   int
	// sim takes commands of gpu-sim, and answers lines.
	sim    io.Writer
	answer *bufio.Scanner
}

// newRig creates a node, for example with "--gpus=2".
func newRig(t testing.TB, args ...string) *rig {
	t.Helper()
	r := &rig{t: t, node: simtest.New(t, args...), dir: t.TempDir(), log: &strings.Builder{}}
	t.Setenv("GPU_SIM_STATE", filepath.Join(r.node.Root, "state"))
	t.Setenv("GPU_SIM_DEV", filepath.Join(r.node.Root, "dev"))
	t.Setenv("APPLY_TEST_ROOT", r.node.Root)
	t.Setenv("APPLY_TEST_BIN", r.node.Bin)
	t.Setenv("APPLY_TEST_DIR", r.dir)
	assert.NilError(t, os.Mkdir(filepath.Join(r.dir, "run"), 0o755))
	r.batch()
	var err error
	if r.session, err = openSession(); err != nil {
		t.Fatal(err)
	}
	r.a = r.with(r)
	t.Cleanup(r.idle)
	return r
}

// limit is how long the lease is held at most.
const limit = 30 * time.Second

func lease(dir string) *contract.Lease { return contract.Dir{Root: filepath.Join(dir, "run")}.NVML() }

// openSession returns the access of this process to NVML.
func openSession() (*nvml.Session, error) {
	root, bin, dir := os.Getenv("APPLY_TEST_ROOT"), os.Getenv("APPLY_TEST_BIN"), os.Getenv("APPLY_TEST_DIR")
	return nvml.New(nvml.Config{
		LibraryPath: filepath.Join(bin, "lib", "libnvidia-ml.so.1"), Proc: driverproc.Root(filepath.Join(root, "proc")), Lease: lease(dir),
	})
}

// applier returns an Applier.
func applier(session *nvml.Session, reset apply.Resetter, cfg apply.Config) (*apply.Applier, error) {
	cfg.Session, cfg.Reset, cfg.StateDir = session, reset, filepath.Join(os.Getenv("APPLY_TEST_DIR"), "state")
	cfg.Patience, cfg.Limit, cfg.Sys = 100*time.Millisecond, limit, filepath.Join(os.Getenv("APPLY_TEST_ROOT"), "sys")
	return apply.New(cfg)
}

// containers is that of apply.Config.
func (r *rig) containers(context.Context, []mig.GPU) (map[gpu.UUID][]mig.Holder, error) {
	r.asked++
	return r.held, r.unknown
}

// train is a container of a pod that holds a MIG device, and has no process yet.
func train(gpuInstance, computeInstance uint32) mig.Holder {
	return mig.Holder{Process: procowner.Process{Pod: procowner.Pod{Namespace: "default", Name: "train"}}, GPUInstance: gpuInstance, ComputeInstance: computeInstance}
}

// idle shuts NVML down in this process.
func (r *rig) idle() {
	r.t.Helper()
	assert.NilError(r.t, r.session.Close())
}

// with returns an Applier of the node with another Resetter. go-nvml admits one session in a
// process.
func (r *rig) with(reset apply.Resetter) *apply.Applier {
	r.t.Helper()
	a, err := applier(r.session, reset, apply.Config{Containers: r.containers, Log: slog.New(slog.NewTextHandler(r.log, nil))})
	assert.NilError(r.t, err)
	return a
}

// batch starts a process that runs commands of gpu-sim.
func (r *rig) batch() {
	cmd := exec.CommandContext(context.WithoutCancel(r.t.Context()), filepath.Join(r.node.Bin, "gpu-sim"), "batch")
	cmd.Env = append(os.Environ(), "GPU_SIM_ROOT="+r.node.Root)
	in, err := cmd.StdinPipe()
	assert.NilError(r.t, err)
	out, err := cmd.StdoutPipe()
	assert.NilError(r.t, err)
	cmd.Stderr = os.Stderr
	assert.NilError(r.t, cmd.Start())
	r.sim, r.answer = in, bufio.NewScanner(out)
	r.t.Cleanup(func() {
		if err := errors.Join(in.Close(), cmd.Wait()); err != nil {
			r.t.Error(err)
		}
	})
}

// run runs a command of gpu-sim, and returns its output.
func (r *rig) run(format string, args ...any) string {
	r.t.Helper()
	out, err := r.try(format, args...)
	assert.NilError(r.t, err)
	return out
}

func (r *rig) try(format string, args ...any) (string, error) {
	line := fmt.Sprintf(format, args...)
	if _, err := fmt.Fprintln(r.sim, line); err != nil {
		return "", err
	}
	var out strings.Builder
	for r.answer.Scan() {
		if r.answer.Text() == "ok" {
			return out.String(), nil
		}
		out.WriteString(r.answer.Text() + "\n")
	}
	return "", fmt.Errorf("gpu-sim %s: failed: %s", line, out.String())
}

// Reset is that of nvidia-smi, without a process for each.
func (r *rig) Reset(_ context.Context, gpus []mig.GPU) error {
	for _, g := range gpus {
		if strings.Contains(r.run("proc list %s", g.UUID), "\n") && strings.Count(r.run("proc list %s", g.UUID), "\n") > 1 {
			return apply.ErrBusy
		}
	}
	for _, g := range gpus {
		r.run("reset --takes 0s %s", g.UUID)
	}
	return nil
}

// gpus returns the GPUs as they are.
func (r *rig) gpus() []mig.GPU {
	r.t.Helper()
	gpus, err := r.a.GPUs(r.t.Context())
	assert.NilError(r.t, err)
	return gpus
}

// state returns the states of the GPUs.
func (r *rig) state() []string {
	r.t.Helper()
	var out []string
	for _, g := range r.gpus() {
		out = append(out, shown(g))
	}
	return out
}

// shown returns the state of a GPU in one line.
func shown(g mig.GPU) string {
	if g.Fault != nil {
		return "fault"
	}
	text := fmt.Sprintf("%t %t", g.Enabled, g.Pending)
	for _, i := range g.Layout {
		text += fmt.Sprintf(" %s@%d:%d", i.Profile, i.Placement.Start, i.Placement.Size)
		for _, c := range i.Compute {
			text += fmt.Sprintf("/%d@%d", c.Slices, c.Placement.Start)
		}
	}
	return text
}

// ask is a request for GPUs by their index: "off", or the profiles of MIG devices.
func (r *rig) ask(want map[int]string) apply.Request {
	r.t.Helper()
	return apply.Request{Desired: desired(r.t, r.gpus(), want)}
}

func desired(t testing.TB, gpus []mig.GPU, want map[int]string) map[gpu.UUID]mig.Desired {
	out := map[gpu.UUID]mig.Desired{}
	for _, g := range gpus {
		text, ok := want[g.Index]
		if !ok {
			continue
		}
		d := mig.Desired{Enabled: text != "off", Devices: map[gpu.Profile]int{}}
		for name := range strings.FieldsSeq(strings.Replace(text, "off", "", 1)) {
			p, err := gpu.ParseProfile(name)
			assert.NilError(t, err)
			d.Devices[p]++
		}
		out[g.UUID] = d
	}
	return out
}

// journal reports whether there is a journal.
func (r *rig) journal() bool {
	_, err := os.Stat(filepath.Join(r.dir, "state", "journal.json"))
	return err == nil
}

// calls returns how many calls of NVML f makes.
func (r *rig) calls(f func()) int {
	r.t.Helper()
	r.node.Calls()
	f()
	total := 0
	for _, n := range r.node.Calls() {
		total += n
	}
	return total
}

// outcomes returns what became of the GPUs.
func outcomes(res apply.Result) []apply.Outcome {
	var out []apply.Outcome
	for _, o := range res.GPUs {
		out = append(out, o.Outcome)
	}
	return out
}

func expect[T comparable](t testing.TB, what string, got, want []T) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}
