package plan_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"outrigger.dev/agents/mig-manager/internal/boards"
	"outrigger.dev/agents/mig-manager/internal/plan"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/mig"
	"outrigger.dev/pkg/gpu/simtest"
)

// Every feasible multiset is created on a simulated GPU, which has rules of its own, by the
// steps in their order; and then layouts are changed into others.
func TestOnSimulator(t *testing.T) {
	for _, model := range simtest.Models(t) {
		if _, divisible := boards.Named(model); !divisible {
			continue
		}
		t.Run(model, func(t *testing.T) {
			t.Parallel()
			node := simtest.New(t, "--gpus=1", "--model="+model)
			node.Run("mig mode", "0", "on")
			node.Run("reset", "--takes=0s", "0")
			s := &script{t: t, board: board(t, model)}
			all := allLayouts(s.board)
			sets := multisets(all, "")
			delete(sets, "")
			for _, k := range slices.Sorted(maps.Keys(sets)) {
				s.change(sets[k].Devices())
				s.clear()
			}
			seed := uint64(time.Now().UnixNano())
			t.Logf("seed %d", seed)
			rng := rand.New(rand.NewPCG(seed, 0))
			for range 20 {
				s.to(all[rng.IntN(len(all))])
				s.change(all[rng.IntN(len(all))].Devices())
			}
			s.run(node)
		})
	}
}

// The compute instances of a new GPU instance are where the driver puts them.
func TestPartsOnSimulator(t *testing.T) {
	node := simtest.New(t, "--gpus=1", "--model=h200")
	node.Run("mig mode", "0", "on")
	s := &script{t: t, board: board(t, "h200")}
	for _, want := range []string{
		"3*1c.3g.71gb", "2c.3g.71gb 1c.3g.71gb 4g.71gb", "4*1c.4g.71gb 3g.71gb", "2*2c.4g.71gb", "2c.4g.71gb 1c.4g.71gb",
		"7*1c.7g.141gb", "3*2c.7g.141gb", "3c.7g.141gb 2c.7g.141gb 1c.7g.141gb", "4c.7g.141gb 1c.7g.141gb", "4*1c.2g.35gb 1g.18gb",
	} {
		s.change(devices(t, want))
		s.clear()
	}
	s.run(node)
}

// script has the commands for a simulated GPU, and the layout that is expected after some.
type script struct {
	t     *testing.T
	board mig.Board
	now   mig.Layout
	lines []string
	// after has the expected layouts by the number of the command that lists them.
	after map[int]mig.Layout
}

// change goes to the planned layout with some devices.
func (s *script) change(want map[gpu.Profile]int) {
	s.t.Helper()
	target, err := plan.Target(s.board, s.now, want, nil)
	assert.NilError(s.t, err)
	s.to(target)
}

// to goes to a layout.
func (s *script) to(target mig.Layout) {
	open := false
	for _, step := range plan.Steps(s.board, s.now, target) {
		i := mig.Instance{Profile: step.Profile}
		switch step.Op {
		case mig.CreateInstance:
			s.lines, open = append(s.lines, "mig create 0"), true
		case mig.CreateCompute:
			last := &s.lines[len(s.lines)-1]
			*last += " " + i.Device(step.Compute).String()
			if open {
				*last += fmt.Sprintf("@%d", step.Placement.Start)
			}
			open = false
		case mig.DestroyInstance:
			// The simulator numbers GPU instances by their places.
			id := s.board.MemorySlices/step.Placement.Size - 1 + step.Placement.Start/step.Placement.Size
			s.lines = append(s.lines, fmt.Sprintf("mig destroy 0 %d", id))
		case mig.DestroyCompute: // the simulator does it with the GPU instance
		}
	}
	if s.after == nil {
		s.after = map[int]mig.Layout{}
	}
	s.after[len(s.lines)] = target
	s.lines = append(s.lines, "mig list --json 0")
	s.now = target
}

// clear destroys all instances.
func (s *script) clear() {
	s.lines, s.now = append(s.lines, "mig destroy 0 all"), nil
}

// run runs the commands in one process, and compares what they list.
func (s *script) run(node *simtest.Node) {
	s.t.Helper()
	cmd := exec.CommandContext(s.t.Context(), filepath.Join(node.Bin, "gpu-sim"), "batch")
	cmd.Env = append(os.Environ(), "GPU_SIM_ROOT="+node.Root)
	cmd.Stdin = strings.NewReader(strings.Join(s.lines, "\n"))
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	outputs := strings.SplitAfter(string(out), "\nok\n")
	if err != nil {
		done := len(outputs) - 1
		s.t.Fatalf("%v: %s after %q", err, stderr.String(), s.lines[max(0, done-5):done+1])
	}
	for n, want := range s.after {
		if got := listed(s.t, outputs[n]); text(got) != text(want) {
			s.t.Errorf("after %q the simulator has %s, want %s", s.lines[max(0, n-5):n], text(got), text(want))
		}
	}
	s.t.Logf("%d layouts by %d commands", len(s.after), len(s.lines))
}

// listed reads the output of "mig list --json".
func listed(t *testing.T, output string) mig.Layout {
	t.Helper()
	type place struct{ Start, Size int }
	var list []struct {
		GPUInstances []struct {
			place
			Profile          gpu.Profile `json:"profile"`
			ComputeInstances []place     `json:"computeInstances"`
		} `json:"gpuInstances"`
	}
	if err := json.Unmarshal([]byte(strings.TrimSuffix(output, "ok\n")), &list); err != nil {
		t.Fatalf("%v in %q", err, output)
	}
	l := mig.Layout{}
	for _, g := range list[0].GPUInstances {
		i := mig.Instance{Profile: g.Profile, Placement: gpu.Placement(g.place)}
		for _, c := range g.ComputeInstances {
			i.Compute = append(i.Compute, mig.Compute{Slices: c.Size, Placement: gpu.Placement(c)})
		}
		l = append(l, i)
	}
	l.Sort()
	return l
}
