package partition_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"
	"gotest.tools/v3/assert"

	"outrigger.dev/pkg/driverproc"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/mig"
	"outrigger.dev/pkg/gpu/nvml"
	"outrigger.dev/pkg/gpu/nvml/partition"
	"outrigger.dev/pkg/gpu/simtest"
	"outrigger.dev/pkg/procowner"
)

// rig reads a simulated node through the C ABI.
type rig struct {
	t       testing.TB
	node    *simtest.Node
	session *nvml.Session
	reader  *partition.Reader
}

func newRig(t testing.TB, args ...string) *rig {
	t.Helper()
	n := simtest.New(t, args...)
	t.Setenv("GPU_SIM_STATE", filepath.Join(n.Root, "state"))
	t.Setenv("GPU_SIM_DEV", filepath.Join(n.Root, "dev"))
	session, err := nvml.New(nvml.Config{LibraryPath: filepath.Join(n.Bin, "lib", "libnvidia-ml.so.1"), Proc: driverproc.Root(filepath.Join(n.Root, "proc"))})
	assert.NilError(t, err)
	t.Cleanup(func() {
		if err := session.Close(); err != nil {
			t.Error(err)
		}
	})
	return &rig{t: t, node: n, session: session, reader: partition.New(nil)}
}

// use calls f with a view.
func (r *rig) use(f func(*partition.View) error) {
	r.t.Helper()
	assert.NilError(r.t, r.try(f))
}

func (r *rig) try(f func(*partition.View) error) error {
	_, err := nvml.Use(r.t.Context(), r.session, func(_ context.Context, span *nvml.Span) (struct{}, error) {
		return struct{}{}, f(r.reader.View(span))
	})
	return err
}

func (r *rig) read() (gpus []mig.GPU) {
	r.t.Helper()
	r.use(func(v *partition.View) (err error) {
		gpus, err = v.GPUs()
		return err
	})
	return gpus
}

// shown are the instances of a GPU as gpu-sim prints them.
func (r *rig) shown(index int) []string {
	r.t.Helper()
	var list []struct {
		GPUInstances []struct {
			ID               uint32      `json:"id"`
			Profile          gpu.Profile `json:"profile"`
			Start            int         `json:"start"`
			Size             int         `json:"size"`
			ComputeInstances []struct {
				ID      uint32      `json:"id"`
				Profile gpu.Profile `json:"profile"`
			} `json:"computeInstances"`
		} `json:"gpuInstances"`
	}
	if err := json.Unmarshal(r.node.Run("mig list", "--json", fmt.Sprint(index)), &list); err != nil || len(list) != 1 {
		r.t.Fatal(list, err)
	}
	var out []string
	for _, gi := range list[0].GPUInstances {
		text := fmt.Sprintf("%d %s %d:%d", gi.ID, gi.Profile, gi.Start, gi.Size)
		var parts []string
		for _, ci := range gi.ComputeInstances {
			parts = append(parts, fmt.Sprintf(" %d %s", ci.ID, ci.Profile))
		}
		slices.Sort(parts)
		out = append(out, text+strings.Join(parts, ""))
	}
	slices.Sort(out)
	return out
}

// text is shown for a layout.
func text(l mig.Layout) []string {
	var out []string
	for _, i := range l {
		text := fmt.Sprintf("%d %s %d:%d", i.ID, i.Profile, i.Placement.Start, i.Placement.Size)
		var parts []string
		for _, c := range i.Compute {
			parts = append(parts, fmt.Sprintf(" %d %s", c.ID, i.Device(c)))
		}
		slices.Sort(parts)
		out = append(out, text+strings.Join(parts, ""))
	}
	slices.Sort(out)
	return out
}

func TestReadSeesWhatTheNodeHas(t *testing.T) {
	for model, c := range map[string]struct {
		create     string
		slices     [2]int
		needsReset bool
	}{
		"a100-40": {"3g.20gb 1c.2g.10gb@0 1g.5gb+me@2", [2]int{8, 7}, true},
		"a30":     {"2g.12gb 1g.6gb 1g.6gb+me", [2]int{4, 4}, true},
		"h100-80": {"1c.3g.40gb 1c.3g.40gb 1g.20gb@0 1g.10gb@2", [2]int{8, 7}, false},
		"b200":    {"7g.180gb", [2]int{8, 7}, false},
	} {
		t.Run(model, func(t *testing.T) {
			r := newRig(t, "--gpus=2", "--model="+model)
			off := r.read()
			if off[0].Enabled || len(off[0].Board.Profiles) == 0 {
				t.Errorf("with the mode off: %+v", off[0])
			}
			r.node.Run("mig mode", "0", "on")
			if c.needsReset {
				if g := r.read()[0]; g.Enabled || !g.Pending {
					t.Errorf("before the reset: %+v", g.State)
				}
				r.node.Run("reset", "0")
			}
			r.node.Run(append([]string{"mig create", "0"}, strings.Fields(c.create)...)...)
			g := r.read()[0]
			if got, want := text(g.Layout), r.shown(0); !slices.Equal(got, want) || len(got) == 0 {
				t.Errorf("layout: got %q, want %q", got, want)
			}
			if got := [2]int{g.Board.MemorySlices, g.Board.ComputeSlices}; got != c.slices || g.NeedsReset != c.needsReset || !g.Capable {
				t.Errorf("board: %v slices, needs reset: %t, capable: %t", got, g.NeedsReset, g.Capable)
			}
			if g.UUID == "" || g.PCI.BusID == "" || g.Name == "" || g.Index != 0 {
				t.Errorf("GPU: %+v", g)
			}
		})
	}
}

// Drivers of the 535 branch tell the profiles once the mode is on: also to who has read the GPU
// before.
func TestProfilesAppearWithTheMode(t *testing.T) {
	r := newRig(t, "--gpus=1", "--model=h100-80")
	r.node.Run("set", "nvmlDeviceGetGpuInstanceProfileInfo.return=3")
	r.use(func(v *partition.View) error {
		gpus, err := v.GPUs()
		if err != nil {
			return err
		}
		if len(gpus[0].Board.Profiles) > 0 {
			t.Errorf("with the mode off: %+v", gpus[0])
		}
		if _, err := v.SetMode(gpus[0].UUID, true); err != nil {
			return err
		}
		r.node.Run("set", "nvmlDeviceGetGpuInstanceProfileInfo.return=0")
		g, err := v.GPU(gpus[0].UUID)
		if len(g.Board.Profiles) == 0 {
			t.Errorf("with the mode on: %+v", g)
		}
		return err
	})
}

// NVML says what there is room for beside what exists.
func TestCapacity(t *testing.T) {
	r := newRig(t, "--gpus=1", "--model=a30")
	r.node.Run("mig mode", "0", "on")
	r.node.Run("reset", "0")
	for _, c := range []struct{ create, want string }{
		{"", "1g.6gb+me:1 1g.6gb:4 2g.12gb+me:1 2g.12gb:2 4g.24gb:1"},
		{"1g.6gb+me@0", "1g.6gb+me:0 1g.6gb:3 2g.12gb+me:0 2g.12gb:1 4g.24gb:0"},
	} {
		if c.create != "" {
			r.node.Run("mig create", "0", c.create)
		}
		g := r.read()[0]
		r.use(func(v *partition.View) error {
			got, err := v.Capacity(g.UUID)
			var words []string
			for p, n := range got {
				words = append(words, fmt.Sprintf("%s:%d", p, n))
			}
			slices.Sort(words)
			if text := strings.Join(words, " "); text != c.want {
				t.Errorf("with %q there is room for %s, want %s", c.create, text, c.want)
			}
			return err
		})
	}
}

// An instance of a profile that NVML does not list is seen.
func TestUnlistedInstances(t *testing.T) {
	r := newRig(t, "--gpus=1", "--model=h100-80")
	r.node.Run("mig mode", "0", "on")
	r.node.Run("mig create", "0", "1g.20gb@2", "3g.40gb@4", "1g.10gb@0")
	all := r.read()[0]
	if len(all.Layout) != 3 || len(all.Unlisted) != 0 {
		t.Fatalf("layout: %v, unlisted: %v", all.Layout, all.Unlisted)
	}
	at := slices.IndexFunc(all.Layout, func(i mig.Instance) bool { return i.Profile.GB == 20 })
	r.node.Run("set", "nvmlDeviceGetGpuInstanceProfileInfo.return=3@10") // NVML_GPU_INSTANCE_PROFILE_1_SLICE_REV2
	r.reader = partition.New(nil)
	g := r.read()[0]
	p, _ := all.Board.Profile(all.Layout[at].Profile)
	want := []mig.Unlisted{{ID: all.Layout[at].ID, ProfileID: p.ID, Placement: gpu.Placement{Start: 2, Size: 2}, ComputeSlices: 1}}
	if !slices.Equal(g.Unlisted, want) || len(g.Layout) != 2 {
		t.Errorf("unlisted: %v, want %v; layout: %v", g.Unlisted, want, g.Layout)
	}
	r.node.Run("mig destroy", "0", fmt.Sprint(want[0].ID))
	if g := r.read()[0]; len(g.Unlisted) != 0 {
		t.Errorf("unlisted after it was destroyed: %v", g.Unlisted)
	}
}

// A driver that does not take places of compute instances chooses them.
func TestComputeInstancesWithoutPlaces(t *testing.T) {
	r := newRig(t, "--gpus=1", "--model=h100-80")
	r.node.Run("mig mode", "0", "on")
	g := r.read()[0]
	r.node.Run("set", "nvmlGpuInstanceCreateComputeInstanceWithPlacement.return=3")
	at := slices.IndexFunc(g.Board.Profiles, func(p mig.Profile) bool { return p.Name.GPUSlices == 3 })
	p := g.Board.Profiles[at]
	step := mig.Step{Op: mig.CreateInstance, Profile: p.Name, Placement: p.Placements[0]}
	r.use(func(v *partition.View) error { return v.Do(g.UUID, step) })
	step.Op, step.Compute = mig.CreateCompute, mig.Compute{Slices: 3, Placement: gpu.Placement{Size: 3}}
	r.use(func(v *partition.View) error { return v.Do(g.UUID, step) })
	if got := r.read()[0].Layout; len(got) != 1 || len(got[0].Compute) != 1 {
		t.Errorf("layout: %v", got)
	}
}

// What was read of a GPU is a value: steps that are taken then do not change it.
func TestStepsDoNotChangeWhatWasRead(t *testing.T) {
	r := newRig(t, "--gpus=1", "--model=h100-80")
	r.node.Run("mig mode", "0", "on")
	r.node.Run("mig create", "0", "1c.3g.40gb", "1c.3g.40gb")
	r.use(func(v *partition.View) error {
		gpus, err := v.GPUs()
		if err != nil {
			return err
		}
		before, in := text(gpus[0].Layout), gpus[0].Layout[0]
		err = v.Do(gpus[0].UUID, mig.Step{Op: mig.DestroyCompute, Profile: in.Profile, Placement: in.Placement, Compute: in.Compute[0]})
		if after := text(gpus[0].Layout); !slices.Equal(after, before) {
			t.Errorf("the layout that was read was %q, and is %q after a step", before, after)
		}
		return err
	})
}

// What a board has of compute instances before NVML was asked for one is what NVML says then.
func TestUsualComputeProfiles(t *testing.T) {
	for _, model := range []string{"a100-40", "a30", "h100-80", "b200"} {
		t.Run(model, func(t *testing.T) {
			r := newRig(t, "--gpus=1", "--model="+model)
			r.node.Run("mig mode", "0", "on")
			r.node.Run("reset", "0")
			usual := r.read()[0].Board
			for at, p := range usual.Profiles {
				r.node.Run("mig create", "0", p.Name.String())
				if got := r.read()[0].Board.Profiles[at]; fmt.Sprint(got) != fmt.Sprint(p) {
					t.Errorf("NVML says %+v, want %+v", got, p)
				}
				r.node.Run("mig destroy", "0", "all")
			}
		})
	}
}

func TestAFaultyGPUDoesNotHideTheOthers(t *testing.T) {
	r := newRig(t, "--gpus=3", "--model=h100-80")
	id := r.read()[1].UUID
	r.node.Run("lose", "--how=calls", "1")
	gpus := r.read()
	if len(gpus) != 3 || gpus[0].Fault != nil || gpus[2].Fault != nil || gpus[1].Fault == nil || gpus[1].Index != 1 {
		t.Errorf("GPUs: %+v", gpus)
	}
	if err := r.try(func(v *partition.View) error { return v.Do(id, mig.Step{Op: mig.CreateInstance}) }); nvml.Code(err) != gonvml.ERROR_GPU_IS_LOST {
		t.Errorf("Do() of a GPU that does not answer = %v", err)
	}
	r.use(func(v *partition.View) error {
		g, err := v.GPU(id)
		if err == nil && (g.Fault == nil || g.UUID != id || g.Index != 1) {
			t.Errorf("GPU() of a GPU that does not answer = %+v", g)
		}
		other, err2 := v.GPU(gpus[2].UUID)
		if err2 == nil && (other.Fault != nil || other.UUID != gpus[2].UUID) {
			t.Errorf("GPU() beside a GPU that does not answer = %+v", other)
		}
		return errors.Join(err, err2)
	})
	if _, err := nvml.Use(t.Context(), r.session, func(_ context.Context, span *nvml.Span) (mig.GPU, error) {
		return r.reader.View(span).GPU("GPU-00000000-0000-0000-0000-000000000000")
	}); !errors.Is(err, partition.ErrNoGPU) {
		t.Errorf("GPU() of a GPU that is not there = %v", err)
	}
}

// One GPU is read without the others, also by who knows none of them, or where it has another
// index now.
func TestOneGPUIsReadAlone(t *testing.T) {
	r := newRig(t, "--gpus=4", "--model=h100-80")
	gpus := r.read()
	one := func(reader *partition.Reader) int {
		t.Helper()
		r.reader = reader
		r.node.Calls()
		r.use(func(v *partition.View) error {
			g, err := v.GPU(gpus[3].UUID)
			if err == nil && (g.PCI.BusID != gpus[3].PCI.BusID || g.Index != 3 || len(g.Board.Profiles) == 0) {
				t.Errorf("GPU() = %+v, want %+v", g, gpus[3])
			}
			return err
		})
		total := 0
		for _, n := range r.node.Calls() {
			total += n
		}
		return total
	}
	// The number of GPUs, the handle, its UUID and three more constants, the mode, and the driver's version.
	if n := one(r.reader); n > 8 {
		t.Errorf("%d calls for one GPU of 4", n)
	}
	one(partition.New(nil))
}

// What another version of the driver reports of a board replaces what the one before reported.
func TestAnotherDriverReportsAnotherBoard(t *testing.T) {
	r := newRig(t, "--gpus=1", "--model=h100-80")
	r.node.Run("set", "nvmlDeviceGetGpuInstanceProfileInfo.return=3@1") // the first kind
	before := r.read()[0].Board
	if again := r.read()[0].Board; len(again.Profiles) != len(before.Profiles) {
		t.Errorf("the board of one driver was read twice: %d profiles, then %d", len(before.Profiles), len(again.Profiles))
	}
	assert.NilError(t, r.session.Close())
	if again := r.read()[0].Board; len(again.Profiles) != len(before.Profiles) {
		t.Errorf("the board of one driver was read again with NVML: %d profiles, then %d", len(before.Profiles), len(again.Profiles))
	}
	assert.NilError(t, r.session.Close())
	r.node.Run("delete")
	r.node.Run("create", "--gpus=1", "--model=h100-80", "--driver-version=590.10")
	if after := r.read()[0].Board; len(after.Profiles) != len(before.Profiles)+1 {
		t.Errorf("after an upgrade of the driver, the board has %d profiles, as before", len(after.Profiles))
	}
}

func TestProcesses(t *testing.T) {
	r := newRig(t, "--gpus=1", "--model=h100-80")
	r.node.Run("mig mode", "0", "on")
	r.node.Run("mig create", "0", "3g.40gb")
	g := r.read()[0]
	in := g.Layout[0]
	r.node.Run("proc add", fmt.Sprintf("--pid=%d", os.Getpid()), fmt.Sprintf("--instance=%d/%d", in.ID, in.Compute[0].ID), "0")
	want := mig.Holder{Process: procowner.Process{PID: os.Getpid()}, GPUInstance: in.ID, ComputeInstance: in.Compute[0].ID}
	r.use(func(v *partition.View) error {
		got, err := v.Processes(g.UUID)
		if !slices.Equal(got, []mig.Holder{want}) {
			t.Errorf("Processes() = %+v, want %+v", got, want)
		}
		err = errors.Join(err, ignoreInUse(v.Do(g.UUID, mig.Step{Op: mig.DestroyCompute, Profile: in.Profile, Placement: in.Placement, Compute: in.Compute[0]})))
		return err
	})
}

func ignoreInUse(err error) error {
	if partition.InUse(err) {
		return nil
	}
	return fmt.Errorf("want an error for an instance in use, got %w", err)
}

// A reading of 8 GPUs with 56 MIG devices is cheap, and changes nothing.
func TestAReadingIsCheap(t *testing.T) {
	r := newRig(t, "--gpus=8", "--model=h100-80")
	r.node.Run("mig mode", "all", "on")
	r.node.Run(append([]string{"mig create", "all"}, slices.Repeat([]string{"1g.10gb"}, 7)...)...)
	r.read()
	r.node.Calls()
	r.read()
	total := 0
	for symbol, n := range r.node.Calls() {
		total += n
		if strings.Contains(symbol, "Create") || strings.Contains(symbol, "Destroy") || strings.Contains(symbol, "Set") {
			t.Errorf("%s was called", symbol)
		}
	}
	t.Logf("%d calls for 8 GPUs with 7 devices each", total)
	// 6 for each GPU, one for its list of instances, and 4 for each instance.
	if most := 1 + 8*(6+1+7*4); total > most {
		t.Errorf("%d calls, want at most %d", total, most)
	}
}
