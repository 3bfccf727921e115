package app_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"outrigger.dev/sim/internal/state"
)

// scenario writes a scenario.
func (s sim) scenario(text string) string {
	s.t.Helper()
	file := filepath.Join(s.t.TempDir(), "s.yaml")
	assert.NilError(s.t, os.WriteFile(file, []byte(text), 0o600))
	return file
}

func TestAScenarioIsPlayed(t *testing.T) {
	needRoot(t)
	s := newSim(t)
	s.must("create", "--gpus", "2", "--model", "h100-80")
	file := s.scenario(`
- {at: 20ms, gpu: 0, set: {temperature: 85}}
- {at: 10ms, gpu: 0, lose: true}
- {at: 30ms, gpu: 0, heal: true}
- {at: 0s, gpu: 1, mig: [3g.40gb, 1g.10gb]}
- {at: 0s, gpu: 1, load: {utilization: 50, memory: 1Gi}}
- {at: 40ms, node: other, gpu: 1, lose: true}
`)
	before := s.must("show", "--json")
	dry := s.must("play", "--dry-run", file)
	want := "    0s  gpu-sim mig mode 1 on && gpu-sim reset --takes 0s 1 && gpu-sim mig create 1 3g.40gb 1g.10gb\n    0s  gpu-sim load --memory 1Gi 1 50\n  10ms  gpu-sim lose 0\n"
	if !strings.HasPrefix(dry, want) || s.must("show", "--json") != before {
		t.Errorf("a dry run prints:\n%s", dry)
	}
	out := s.must("play", "--node", "this", "--repeat", "2", file)
	snap := s.show()
	if g := snap.GPUs[0]; g.Lost != "" || g.Temperature != 85 || strings.Count(out, "  10ms  lost GPU 0") != 2 {
		t.Errorf("GPU 0: %+v, output:\n%s", g, out)
	}
	if g := snap.GPUs[1]; g.Lost != "" || g.UtilizationGPU != 50 || g.MemoryUsed != 1<<30 || len(g.MIG.GPUInstances) != 2 {
		t.Errorf("GPU 1: %+v", g)
	}
	cmd := s.command(t.Context(), "play", "-")
	cmd.Stdin = strings.NewReader("- {at: 0s, gpu: 0, lose: calls}")
	data, err := cmd.CombinedOutput()
	assert.NilError(t, err, "%s", data)
	if g := s.show().GPUs[0]; g.Lost != state.LostCalls {
		t.Errorf("GPU 0: %+v", g)
	}
}

func TestMistakesOfAScenario(t *testing.T) {
	needRoot(t)
	s := newSim(t)
	s.must("create", "--gpus", "1", "--model", "h100-80")
	for text, want := range map[string][]string{
		"- {at: 1s, gpu: 0, xid: x}\n- {at: 1s, gpu: 0, set: {colour: 1}}\n- {at: 1s, plug: g80}\n": {"s.yaml:1: [0].xid:", "s.yaml:2: [1].set.colour: unknown field", "s.yaml:3: [2].plug:"},
		"- {at: 0s, gpu: 0, xid: 79}\n- {at: 0s, gpu: 7, xid: 79}\n":                                {`line 2: xid: GPU "7"`},
		"- {at: 0s, node: a, gpu: 0, xid: 79}\n- {at: 0s, node: b, gpu: 7, xid: 79}\n":              {"nodes a, b: choose one with --node"},
	} {
		_, stderr, code := s.run("play", s.scenario(text))
		if lines := strings.Count(stderr, "\n"); code != 1 || lines != len(want) {
			t.Errorf("%s: exit code %d, %d lines:\n%s", text, code, lines, stderr)
		}
		for _, part := range want {
			if !strings.Contains(stderr, part) {
				t.Errorf("%s: no %q in:\n%s", text, part, stderr)
			}
		}
	}
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"a file that is not there": {[]string{"/no/such.yaml"}, "/no/such.yaml"},
		"a node without events":    {[]string{"--node", "c", s.scenario("- {at: 0s, node: a, gpu: 0, xid: 79}")}, "no event for the node c"},
		"a negative count":         {[]string{"--repeat", "-1", "x"}, "--repeat"},
	} {
		if _, stderr, code := s.run("play", tc.args...); code != 1 || !strings.Contains(stderr, tc.want) {
			t.Errorf("%s: exit code %d: %s", name, code, stderr)
		}
	}
}

func TestALoadByHand(t *testing.T) {
	needRoot(t)
	s := newSim(t)
	s.must("create", "--gpus", "2", "--model", "h100-80")
	s.must("mig", "mode", "1", "on")
	s.must("mig", "create", "1", "3g.40gb")
	idle := s.show().GPUs[0]
	device := s.show().GPUs[1].MIG.GPUInstances[0].ComputeInstances[0].UUID
	if out := s.must("load", "--memory", "20Gi", "0", "80"); out != "load of "+idle.UUID+": 80 %, memory 20Gi\n" {
		t.Errorf("output %q", out)
	}
	s.must("load", device, "60-90")
	want := "DEVICE                                    OWNER  UTILIZATION  MEMORY\n" + idle.UUID + "  -      80 %         20480 MiB\n" + device + "  -      60-90 %      0 MiB\n"
	if out := s.must("load"); out != want {
		t.Errorf("loads:\n%swant:\n%s", out, want)
	}
	gpus := s.show().GPUs
	if g := gpus[0]; g.UtilizationGPU != 80 || g.MemoryUsed != 20<<30 || g.PowerMilliwatts <= idle.PowerMilliwatts {
		t.Errorf("GPU 0: %+v", g)
	}
	if v := gpus[1].MIG.GPUInstances[0].Values["sm-active"]; v < 60 || v > 90 {
		t.Errorf("the MIG device has the load %d", v)
	}
	s.must("load", "0", "off")
	if g := s.show().GPUs[0]; g.UtilizationGPU != 0 || g.MemoryUsed != 0 || g.PowerMilliwatts != idle.PowerMilliwatts {
		t.Errorf("after the load: %+v", g)
	}
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"no utilization":         {[]string{"0"}, "usage: gpu-sim load"},
		"too much":               {[]string{"0", "101"}, "from 0 to 100, or off"},
		"memory of a MIG device": {[]string{"--memory", "1Gi", device, "10"}, "gpu-sim proc add --memory"},
		"bad memory":             {[]string{"--memory", "20GB", "0", "10"}, "flag --memory"},
		"an unknown GPU":         {[]string{"7", "10"}, `GPU "7"`},
		"an unknown MIG device":  {[]string{"MIG-x", "10"}, `MIG device "MIG-x"`},
	} {
		if _, stderr, code := s.run("load", tc.args...); code != 1 || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, tc.want) {
			t.Errorf("%s: exit code %d: %s", name, code, stderr)
		}
	}
}
