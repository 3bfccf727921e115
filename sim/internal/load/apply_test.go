package load_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"gotest.tools/v3/assert"

	"outrigger.dev/pkg/scenario"
	"outrigger.dev/sim/internal/load"
	"outrigger.dev/sim/internal/load/loadtest"
	"outrigger.dev/sim/internal/state"
)

func TestAGPUShowsALoadUntilItEnds(t *testing.T) {
	t.Parallel()
	n := loadtest.New(t, "h100-80", 2)
	assert.NilError(t, n.State.SetField(1, "temperature", "33"))
	idle, other := n.GPU(0), n.GPU(1)
	n.Show(1, load.Load{Owner: "ml/train", Seed: "u", Device: idle.UUID, Use: loadtest.Constant(80, 20<<30)})
	g := n.GPU(0)
	for field, want := range map[string]uint64{
		"utilization-gpu": 80, "sm-active": 80, "utilization-memory": 40, "dram-active": 40, "tensor-active": 40, "fp64-active": 0,
		"memory-used": 20 << 30, "temperature": 66, "memory-temperature": 71, "clock-sm": 1980,
		"power": idle.Values["power"] + (700000-idle.Values["power"])*72/100,
	} {
		if got := g.Values[field]; got != want {
			t.Errorf("%s is %d, want %d", field, got, want)
		}
	}
	if d := cmp.Diff(other, n.GPU(1)); d != "" {
		t.Errorf("another GPU changed:\n%s", d)
	}
	// A change by hand on a GPU without a load stays, and one on a GPU with a load does not.
	assert.NilError(t, n.State.SetField(0, "temperature", "99"))
	assert.NilError(t, n.State.SetField(0, "fp64-active", "7"))
	assert.NilError(t, n.State.SetField(1, "utilization-gpu", "55"))
	n.Show(2, load.Load{Owner: "ml/train", Seed: "u", Device: idle.UUID, Use: loadtest.Constant(80, 20<<30)})
	if g := n.GPU(0); g.Temperature != 66 || n.GPU(1).UtilizationGPU != 55 || g.Values["fp64-active"] != 7 {
		t.Errorf("temperature %d, utilization of the other GPU %d", g.Temperature, n.GPU(1).UtilizationGPU)
	}
	assert.NilError(t, n.State.SetField(0, "fp64-active", "0"))
	n.Show(3)
	if d := cmp.Diff(idle, n.GPU(0)); d != "" {
		t.Errorf("after the load (-before +after):\n%s", d)
	}
	if n.GPU(1).UtilizationGPU != 55 {
		t.Error("the values of a GPU without a load are not kept")
	}
	if _, err := os.Stat(filepath.Join(n.Root, "loads.json")); !os.IsNotExist(err) { //nolint:forbidigo // a test
		t.Errorf("the record remains: %v", err)
	}
}

func TestSharedGPUsShowTheSum(t *testing.T) {
	t.Parallel()
	n := loadtest.New(t, "l4", 1)
	uuid := n.GPU(0).UUID
	loads := []load.Load{
		{Owner: "a/a", Device: uuid, Use: loadtest.Constant(40, 8<<30)},
		{Owner: "a/b", Device: uuid, Use: loadtest.Constant(30, 8<<30)},
	}
	n.Show(1, loads...)
	if g := n.GPU(0); g.UtilizationGPU != 70 || g.Values["utilization-memory"] != 35 || g.MemoryUsed != 16<<30 {
		t.Errorf("the sum of two: %+v", g.Values)
	}
	n.Show(2, append(loads, load.Load{Owner: "a/c", Device: uuid, Use: loadtest.Constant(60, 16<<30)})...)
	limits, err := n.State.Limits(0)
	assert.NilError(t, err)
	if g := n.GPU(0); g.UtilizationGPU != 100 || g.MemoryUsed != limits.Memory {
		t.Errorf("the sum of three is not limited: %+v", g.Values)
	}
	n.Show(3, loads[0])
	if g := n.GPU(0); g.UtilizationGPU != 40 || g.MemoryUsed != 8<<30 {
		t.Errorf("one is left: %+v", g.Values)
	}
}

func TestMIGDevicesHaveLoads(t *testing.T) {
	t.Parallel()
	n := loadtest.New(t, "h100-80", 1)
	devices := n.Divide("3g.40gb", "1g.10gb")
	idle := n.GPU(0)
	n.Show(1, load.Load{Owner: "a/a", Device: devices[0], Use: loadtest.Constant(70, 0)}, load.Load{Owner: "a/b", Device: devices[1], Use: loadtest.Constant(70, 0)})
	g := n.GPU(0)
	for _, gi := range g.MIG.GPUInstances {
		if gi.Values["sm-active"] != 70 || gi.Values["dram-active"] != 35 {
			t.Errorf("GPU instance %s: %v", gi.Profile, gi.Values)
		}
	}
	if g.Values["sm-active"] != 40 || g.PowerMilliwatts <= idle.PowerMilliwatts { // 70 % of 4 of 7 slices
		t.Errorf("the whole GPU: %v", g.Values)
	}
	n.Show(2, load.Load{Owner: "a/b", Device: devices[1], Use: loadtest.Constant(70, 0)})
	if g := n.GPU(0); g.MIG.GPUInstances[0].Values != nil && g.MIG.GPUInstances[1].Values != nil || g.Values["sm-active"] != 10 {
		t.Errorf("after one load: %+v", g)
	}
	n.Show(3)
	if d := cmp.Diff(idle, n.GPU(0), cmp.AllowUnexported(state.GPUInstance{}, state.ComputeInstance{})); d != "" {
		t.Errorf("after the loads (-before +after):\n%s", d)
	}
}

// TestProcessesOfALoad has a process that exits, and a process of a person.
func TestProcessesOfALoad(t *testing.T) {
	t.Parallel()
	n := loadtest.New(t, "h100-80", 1)
	device := n.Divide("3g.40gb")[0]
	sleep := exec.CommandContext(t.Context(), "sleep", "600")
	assert.NilError(t, sleep.Start())
	pid := sleep.Process.Pid
	assert.NilError(t, n.State.PutProcess(0, state.Process{PID: 1 << 23, GPUInstance: state.WholeGPU, ComputeInstance: state.WholeGPU, MemoryBytes: 1 << 30}))
	l := load.Load{Owner: "a/a", Device: device, PIDs: []int{pid}, Use: loadtest.Constant(50, 20<<30)}
	n.Show(1, l)
	want := state.Process{PID: pid, GPUInstance: n.GPU(0).MIG.GPUInstances[0].ID, MemoryBytes: 20 << 30, Use: state.Use{SM: 50, Memory: 25}}
	if got := n.GPU(0).Processes; len(got) != 2 || !(got[0] == want || got[1] == want) {
		t.Errorf("processes %+v, want %+v", got, want)
	}
	if g := n.GPU(0); g.MemoryUsed != 0 {
		t.Errorf("memory of the process counts twice: %d", g.MemoryUsed)
	}
	l.Memory = 100 << 30 // more than the MIG device has
	n.Show(2, l)
	if used := n.GPU(0).Processes; used[0].MemoryBytes > 40<<30 || used[1].MemoryBytes > 40<<30 {
		t.Errorf("the memory is not limited: %+v", used)
	}
	n.Show(3)
	if got := n.GPU(0).Processes; len(got) != 1 || got[0].PID != 1<<23 {
		t.Errorf("after the load: %+v", got)
	}
	n.Show(4, l)
	assert.NilError(t, sleep.Process.Kill())
	_ = sleep.Wait()
	n.Show(5, l)
	if got := n.GPU(0).Processes; len(got) != 1 {
		t.Errorf("after the exit: %+v", got)
	}
}

// A pod shows its load before its program is a client of MPS, and the server has to start then.
func TestProcessesOfALoadAreClientsOfMPSOnAnExclusiveGPU(t *testing.T) {
	t.Parallel()
	n := loadtest.New(t, "l4", 1)
	l := load.Load{Owner: "a/a", Device: n.GPU(0).UUID, PIDs: []int{os.Getpid()}, Use: loadtest.Constant(50, 0)}
	for second, mode := range []string{"default", "exclusive-process", "default"} {
		assert.NilError(t, n.State.SetField(0, "compute-mode", mode))
		n.Show(int64(second), l)
		if got := n.GPU(0).Processes; len(got) != 1 || got[0].MPS != (mode == "exclusive-process") {
			t.Errorf("compute mode %s: processes %+v", mode, got)
		}
	}
}

func TestARangeVaries(t *testing.T) {
	t.Parallel()
	n := loadtest.New(t, "h100-80", 2)
	curve := func(seed string, gpu int) (values []uint32) {
		for second := range int64(120) {
			n.Show(5*second, load.Load{Owner: "a/a", Seed: seed, Device: n.GPU(gpu).UUID, Use: load.Use{Utilization: scenario.Range{Low: 60, High: 90}}})
			values = append(values, n.GPU(gpu).UtilizationGPU)
		}
		return values
	}
	first := curve("u1", 0)
	low, high := first[0], first[0]
	for _, v := range first {
		low, high = min(low, v), max(high, v)
	}
	if low < 60 || low > 66 || high > 90 || high < 84 {
		t.Errorf("the curve is from %d to %d, want nearly from 60 to 90", low, high)
	}
	assert.DeepEqual(t, first, curve("u1", 0))
	for name, other := range map[string][]uint32{"another pod": curve("u2", 0), "another GPU": curve("u1", 1)} {
		if cmp.Equal(first, other) {
			t.Errorf("%s has the same curve", name)
		}
	}
}

// TestAKilledProcessLosesNothing has a record of a process that was killed after it changed the GPU, and before it
// recorded that the load has ended.
func TestAKilledProcessLosesNothing(t *testing.T) {
	t.Parallel()
	n := loadtest.New(t, "h100-80", 1)
	idle := n.GPU(0)
	l := load.Load{Owner: "a/a", Device: idle.UUID, Use: loadtest.Constant(80, 1<<30)}
	n.Show(1, l)
	record := filepath.Join(n.Root, "loads.json")
	was, err := os.ReadFile(record)
	assert.NilError(t, err)
	n.Show(2)
	assert.NilError(t, os.WriteFile(record, was, 0o600))
	n.Show(3)
	if d := cmp.Diff(idle, n.GPU(0)); d != "" {
		t.Errorf("after the load (-before +after):\n%s", d)
	}
	assert.NilError(t, os.WriteFile(record, []byte("{"), 0o600))
	err = load.Apply(n.Root, time.Unix(4, 0), func([]load.Load) []load.Load { return nil })
	if err == nil || !strings.Contains(err.Error(), "remove "+record) {
		t.Errorf("a damaged record: %v", err)
	}
	err = load.Apply(t.TempDir(), time.Unix(4, 0), func([]load.Load) []load.Load { return []load.Load{l} })
	if err == nil || !strings.Contains(err.Error(), "gpu-sim create") {
		t.Errorf("without a node: %v", err)
	}
	assert.NilError(t, load.Apply(t.TempDir(), time.Unix(4, 0), func([]load.Load) []load.Load { return nil }))
}
