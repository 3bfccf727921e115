package app_test

import (
	"encoding/json"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gotest.tools/v3/assert"

	"outrigger.dev/sim/internal/state"
)

// migGPU is what programs read of "mig list --json".
type migGPU struct {
	Index        int
	UUID         string
	Enabled      bool
	GPUInstances []struct {
		ID, Start        int
		Profile          string
		ComputeInstances []struct {
			ID, Index, Minor int
			UUID, Profile    string
		}
	}
}

func (s sim) mig() []migGPU {
	s.t.Helper()
	var list []migGPU
	assert.NilError(s.t, json.Unmarshal([]byte(s.must("mig", "list", "--json")), &list))
	return list
}

// devices lists the profiles of the MIG devices of a GPU by their index.
func (g migGPU) devices() []string {
	list := []string{}
	for _, gi := range g.GPUInstances {
		for _, ci := range gi.ComputeInstances {
			list = append(list, strconv.Itoa(ci.Index)+" "+ci.Profile)
		}
	}
	return list
}

func TestMIGFromTheCommandLine(t *testing.T) {
	needRoot(t)
	s := newSim(t)
	s.must("create", "--gpus", "2", "--model", "a100-40")
	if out := s.must("mig", "mode", "all", "on"); strings.Count(out, "is pending until a reset (gpu-sim reset ") != 2 {
		t.Errorf("mode on: got %q, want it pending on two GPUs", out)
	}
	if out := s.must("show"); strings.Count(out, "off (on after a reset)") != 2 {
		t.Errorf("show: got %q, want the mode pending", out)
	}
	s.must("reset", "--takes", "0s", "all")
	out := s.must("mig", "create", "nvidia1", "1c.3g.20gb", "1c.3g.20gb", "2g.10gb", "1g.5gb@0")
	if !strings.Contains(out, "made 1g.5gb on GPU 1: GPU instance 7 at 0:1, compute instance 0, MIG-") {
		t.Errorf("create: got %q", out)
	}
	gpus := s.mig()
	if !gpus[0].Enabled || !gpus[1].Enabled || len(gpus[0].GPUInstances) > 0 {
		t.Errorf("got %+v, want both modes on and GPU 0 empty", gpus)
	}
	want := []string{"0 1c.3g.20gb", "1 1c.3g.20gb", "2 2g.10gb", "3 1g.5gb"}
	if diff := cmp.Diff(want, gpus[1].devices()); diff != "" {
		t.Errorf("MIG devices (-want +got):\n%s", diff)
	}
	if out := s.must("mig", "list", gpus[1].UUID); !strings.Contains(out, gpus[1].GPUInstances[0].ComputeInstances[1].UUID) {
		t.Errorf("list: got %q", out)
	}
	if out := s.must("show"); !strings.Contains(out, "on, 4 devices") {
		t.Errorf("show: got %q, want the number of MIG devices", out)
	}
	s.must("xid", "--instance", "2/1", "1", "31")
	s.must("mig", "destroy", "1", "2/0")
	s.must("mig", "destroy", "1", "7")
	if diff := cmp.Diff([]string{"0 1c.3g.20gb", "1 2g.10gb"}, s.mig()[1].devices()); diff != "" {
		t.Errorf("MIG devices that are left (-want +got):\n%s", diff)
	}
	s.must("mig", "destroy", "all")
	if got := s.mig()[1]; len(got.GPUInstances) > 0 {
		t.Errorf("after destroy all: got %+v", got)
	}
	s.must("reboot")
	if got := s.mig(); !got[0].Enabled {
		t.Errorf("after a reboot: got %+v, want that Ampere keeps the mode", got)
	}
}

func TestMIGProfiles(t *testing.T) {
	needRoot(t)
	s := newSim(t)
	s.must("create", "--gpus", "1", "--model", "h100-80")
	s.must("mig", "mode", "0", "on")
	s.must("mig", "create", "0", "3g.40gb")
	var list []struct {
		ID, Free, Max int
		Name          string
	}
	assert.NilError(t, json.Unmarshal([]byte(s.must("mig", "profiles", "--json", "0")), &list))
	free := map[string]int{}
	for _, p := range list {
		free[p.Name] = p.Free
	}
	want := map[string]int{"1g.10gb": 4, "1g.10gb+me": 1, "1g.20gb": 2, "2g.20gb": 2, "3g.40gb": 1, "4g.40gb": 1, "7g.80gb": 0}
	if diff := cmp.Diff(want, free); diff != "" {
		t.Errorf("free beside a 3g.40gb (-want +got):\n%s", diff)
	}
	if out := s.must("mig", "profiles", "0"); !strings.Contains(out, "3g.40gb") || !strings.Contains(out, "1 of 2") {
		t.Errorf("profiles: got %q", out)
	}
}

func TestProcessesFromTheCommandLine(t *testing.T) {
	needRoot(t)
	s := newSim(t)
	s.must("create", "--gpus", "1", "--model", "h100-80")
	s.must("mig", "mode", "0", "on")
	s.must("mig", "create", "0", "1g.10gb@6")
	running := exec.CommandContext(t.Context(), "cat")
	stdin, err := running.StdinPipe()
	assert.NilError(t, err)
	assert.NilError(t, running.Start())
	s.must("proc", "add", "--pid", strconv.Itoa(running.Process.Pid), "--instance", "13/0", "0")
	s.must("proc", "add", "--instance", "13/0", "--memory", "100", "0")
	want := []state.Process{
		{PID: running.Process.Pid, GPUInstance: 13},
		{PID: 1<<22 + 1, GPUInstance: 13, MemoryBytes: 100 << 20},
	}
	if diff := cmp.Diff(want, s.show().GPUs[0].Processes); diff != "" {
		t.Errorf("processes (-want +got):\n%s", diff)
	}
	s.must("proc", "add", "--sm", "30", "--memory-util", "20", "--instance", "13/0", "0")
	s.must("proc", "set", "--sm", "35", "0", strconv.Itoa(1<<22+2))
	if got, want := s.show().GPUs[0].Processes[2].Use, (state.Use{SM: 35, Memory: 20}); got != want {
		t.Errorf("use: got %+v, want %+v", got, want)
	}
	s.must("proc", "end", "0", strconv.Itoa(1<<22+2))
	if out := s.must("proc", "list"); !strings.Contains(out, "13/0") || !strings.Contains(out, "100 MiB") {
		t.Errorf("list: got %q", out)
	}
	if _, stderr, code := s.run("mig", "mode", "0", "off"); code != 1 || !strings.Contains(stderr, "in use by process") {
		t.Errorf("mode off while in use: got code %d, %q", code, stderr)
	}
	s.must("proc", "end", "0", strconv.Itoa(1<<22+1))
	stdin.Close()
	assert.NilError(t, running.Wait())
	s.must("mig", "mode", "0", "off")
}

func TestTelemetryFromTheCommandLine(t *testing.T) {
	needRoot(t)
	s := newSim(t)
	s.must("create", "--gpus", "2", "--model", "h100-80")
	s.must("mig", "mode", "1", "on")
	s.must("mig", "create", "1", "1g.10gb@6", "2g.20gb@0")
	s.must("set", "0.power=123000", "0.sm-active=82", "0.clock-limits=power-cap,sw-thermal", "0.ecc-volatile-dram-corrected=3", "0.nvlink-crc-flit-errors=4:6")
	s.must("set", "1/13.tensor-active=44")
	got := s.show().GPUs
	for name, want := range map[string]uint64{
		"power": 123000, "sm-active": 82, "ecc-volatile-dram-corrected": 3, "ecc-aggregate-dram-corrected": 3, "nvlink-crc-flit-errors": 6, "temperature": 30,
	} {
		if got[0].Values[name] != want {
			t.Errorf("%s: got %d, want %d", name, got[0].Values[name], want)
		}
	}
	if want := "power-cap,sw-thermal"; got[0].ClockLimits != want {
		t.Errorf("limits: got %q, want %q", got[0].ClockLimits, want)
	}
	for _, gi := range got[1].MIG.GPUInstances {
		want := map[int]uint64{13: 44}[gi.ID]
		if gi.Values["tensor-active"] != want {
			t.Errorf("GPU instance %d: got %d, want %d", gi.ID, gi.Values["tensor-active"], want)
		}
	}
}

func TestMIGUsageErrors(t *testing.T) {
	needRoot(t)
	s := newSim(t)
	s.must("create", "--gpus", "2", "--model", "a100-40")
	s.must("mig", "mode", "0", "on")
	s.must("reset", "--takes", "0s", "0")
	s.must("mig", "create", "0", "4g.20gb")
	s.must("proc", "add", "--instance", "1/0", "0")
	s.must("mig", "mode", "1", "on")
	l4 := newSim(t)
	l4.must("create", "--gpus", "1", "--model", "l4")
	before := map[string]string{s.root: s.must("show", "--json"), l4.root: l4.must("show", "--json")}
	for name, tc := range migMistakes(s, l4) {
		t.Run(name, func(t *testing.T) {
			s := sim{t, tc.sim.root, tc.sim.libs}
			stdout, stderr, code := s.run(tc.args[0], tc.args[1:]...)
			if code != 1 || stdout != "" || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, tc.want) {
				t.Errorf("got exit code %d, output %q, error %q; want 1, none and one line with %q", code, stdout, stderr, tc.want)
			}
			if after := s.must("show", "--json"); after != before[s.root] {
				t.Errorf("the node changed from %s to %s", before[s.root], after)
			}
		})
	}
}

// mistake is a command that is rejected on a node, with what it answers.
type mistake struct {
	sim  sim
	args []string
	want string
}

// migMistakes returns mistakes on the nodes of TestMIGUsageErrors.
func migMistakes(s, l4 sim) map[string]mistake {
	return map[string]mistake{
		"unknown sub-command":        {s, []string{"mig", "lsit"}, `unknown command "lsit"`},
		"unknown flag":               {s, []string{"mig", "list", "--jsno"}, "gpu-sim mig list --help"},
		"no GPU":                     {s, []string{"mig", "mode"}, "usage: gpu-sim mig mode [options] GPU on|off"},
		"unknown GPU":                {s, []string{"mig", "mode", "7", "on"}, `GPU "7": no such GPU`},
		"unknown mode":               {s, []string{"mig", "mode", "0", "maybe"}, `want "on" or "off"`},
		"mode is pending":            {s, []string{"mig", "create", "1", "1g.5gb"}, "reset the GPU first (gpu-sim reset 1)"},
		"unknown profile":            {s, []string{"mig", "create", "0", "5g.25gb"}, `profile "5g.25gb"`},
		"profile of another product": {s, []string{"mig", "create", "0", "3g.40gb"}, "want one of 1c.2g.10gb"},
		"start that is no number":    {s, []string{"mig", "create", "0", "3g.20gb@x"}, "want PROFILE or PROFILE@START"},
		"start where it cannot be":   {s, []string{"mig", "create", "0", "3g.20gb@1"}, "may start at the memory slices [0 4]"},
		"place that is taken":        {s, []string{"mig", "create", "0", "3g.20gb@0"}, "0 to 3 by 4g.20gb"},
		"too much":                   {s, []string{"mig", "create", "0", "7g.40gb"}, "gpu-sim mig destroy 0"},
		"destroy what is in use":     {s, []string{"mig", "destroy", "0"}, "in use by process 4194305; end it first (gpu-sim proc end 0 4194305)"},
		"destroy what is not there":  {s, []string{"mig", "destroy", "0", "4"}, "GPU instance 4: no such instance"},
		"instance that is no number": {s, []string{"mig", "destroy", "0", "x/1"}, "want numbers as GI or GI/CI"},
		"reset of a GPU in use":      {s, []string{"reset", "0"}, "in use by process 4194305"},
		"reset that takes less":      {s, []string{"reset", "--takes", "-1s", "1"}, "--takes"},
		"XID of no instance":         {s, []string{"xid", "--instance", "9", "0", "31"}, "GPU instance 9 of slot 0: no such instance"},
		"XID of an odd instance":     {s, []string{"xid", "--instance", "1/", "0", "31"}, "want numbers as GI or GI/CI"},
		"a process that uses more":   {s, []string{"proc", "add", "--sm", "101", "0"}, "use of 101 %: want at most 100"},
		"use of a process that left": {s, []string{"proc", "set", "--sm", "10", "0", "77"}, "use of process 77 in slot 0: no such process"},
		"use of a PID that is none":  {s, []string{"proc", "set", "0", "x"}, `PID "x": want a number`},
		"a field of no instance":     {s, []string{"set", "0/7.sm-active=1"}, "GPU instance 7 of the GPU in slot 0"},
		"no field of an instance":    {s, []string{"set", "0/1.power=1"}, "GPU instances have no such field; want one of utilization-gpu"},
		"process on a GPU instance":  {s, []string{"proc", "add", "--instance", "1", "0"}, "want GI/CI"},
		"process on no instance":     {s, []string{"proc", "add", "--instance", "1/3", "0"}, "no such instance"},
		"process that does not run":  {s, []string{"proc", "add", "--pid", "4194304", "0"}, "no such process runs here"},
		"end of a process not there": {s, []string{"proc", "end", "0", "3"}, "no such process"},
		"end of no number":           {s, []string{"proc", "end", "0", "cat"}, "want a number"},
		"unknown proc command":       {s, []string{"proc", "kill"}, `unknown command "kill"`},
		"unknown recovery":           {s, []string{"set", "0.recovery=prayer"}, "want one of none, reset, reboot"},
		"unknown fabric":             {s, []string{"set", "0.fabric=wool"}, "want not-supported, not-started, in-progress, completed"},
		"product without a fabric":   {l4, []string{"set", "0.fabric=completed"}, "l4 has none"},
		"product without the mode":   {l4, []string{"mig", "mode", "0", "on"}, "does not support MIG"},
		"no product with the mode":   {l4, []string{"mig", "mode", "all", "on"}, "supports MIG"},
		"profiles of such":           {l4, []string{"mig", "profiles", "0"}, "does not support MIG"},
	}
}
