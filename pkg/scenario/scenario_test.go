package scenario_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"gotest.tools/v3/assert"

	"outrigger.dev/pkg/scenario"
)

// known has the names of a small simulator.
func known() scenario.Known {
	return scenario.Known{Fields: []string{"temperature", "clock-limits", "numa-node"}, Models: []string{"h100-80", "l4"}}
}

func TestAScenarioBecomesCommands(t *testing.T) {
	t.Parallel()
	steps, err := scenario.Parse("s.yaml", []byte(`
- {at: 90s, node: node1, gpu: 3, heal: true}
- {at: 30s, node: node1, gpu: 3, xid: 79}
- {at: 30s, node: node2, gpu: "0000:07:00.0", lose: true}
- at: 0s
  gpu: nvidia1
  load: {utilization: 60-90, memory: 20Gi}
- {at: 1m, gpu: 1, load: 75}
- {at: 1m, gpu: 1, load: off}
- {at: 1m, gpu: 1, lose: calls}
- {at: 1m, gpu: 1, load: {memory: 1Gi}}
- {at: 1m, gpu: 1, set: {temperature: 85, clock-limits: "power-cap,sw-thermal", numa-node: -1}}
- {at: 1m, set: {driver: off, latency: 10us, nvmlInit_v2.return: 999}}
- {at: 1m, gpu: 1, mig: [3g.40gb, 1g.10gb+me@3]}
- {at: 1m, gpu: 1, mig: []}
- {at: 1m, gpu: 1, mig: off}
- {at: 1m, gpu: 1, reset: true}
- {at: 1m, plug: true}
- {at: 1m, plug: l4}
- {at: 1m, gpu: 1, unplug: true}
`), known())
	assert.NilError(t, err)
	want := strings.TrimPrefix(`
    0s  gpu-sim load --memory 20Gi nvidia1 60-90
   30s  node1: gpu-sim xid 3 79
   30s  node2: gpu-sim lose 0000:07:00.0
  1m0s  gpu-sim load 1 75
  1m0s  gpu-sim load 1 off
  1m0s  gpu-sim lose --how calls 1
  1m0s  gpu-sim load --memory 1Gi 1 0
  1m0s  gpu-sim set 1.temperature=85 1.clock-limits=power-cap,sw-thermal 1.numa-node=-1
  1m0s  gpu-sim set driver=off latency=10us nvmlInit_v2.return=999
  1m0s  gpu-sim mig mode 1 on && gpu-sim reset --takes 0s 1 && gpu-sim mig create 1 3g.40gb 1g.10gb+me@3
  1m0s  gpu-sim mig mode 1 on && gpu-sim reset --takes 0s 1
  1m0s  gpu-sim mig mode 1 off && gpu-sim reset --takes 0s 1
  1m0s  gpu-sim reset 1
  1m0s  gpu-sim plug
  1m0s  gpu-sim plug --model l4
  1m0s  gpu-sim unplug 1
 1m30s  node1: gpu-sim heal 3
`, "\n")
	var got strings.Builder
	for _, s := range steps {
		got.WriteString(s.String() + "\n")
	}
	if d := cmp.Diff(want, got.String()); d != "" {
		t.Errorf("commands (-want +got):\n%s", d)
	}
	if names, all := scenario.Nodes(steps); !all || !cmp.Equal(names, []string{"node1", "node2"}) {
		t.Errorf("nodes %v, all %v", names, all)
	}
}

// TestAllMistakesAreReportedAtOnce has a mistake in each line.
func TestAllMistakesAreReportedAtOnce(t *testing.T) {
	t.Parallel()
	_, err := scenario.Parse("s.yaml", []byte(`- {gpu: 3, xid: 79}
- {at: soon, gpu: 3, xid: 79}
- {at: 30s, xid: 79}
- {at: 30s, gpu: 3, xid: none}
- {at: 30s, gpu: 3}
- {at: 30s, gpu: 3, xid: 79, heal: true}
- {at: 30s, gpu: 3, xidd: 79}
- {at: 30s, gpu: 3, lose: maybe}
- {at: 30s, gpu: 3, heal: false}
- {at: 30s, gpu: --how, heal: true}
- {at: 30s, gpu: 3, load: 110}
- {at: 30s, gpu: 3, load: {memory: lots}}
- {at: 30s, gpu: 3, set: {colour: red}}
- {at: 30s, set: {temperature: 85}}
- {at: 30s, gpu: 3, plug: true}
- {at: 30s, plug: g80}
- {at: 30s, gpu: 3, mig: 3g.40gb}
- just a text
- {at: -3s, node: "a b", gpu: 3, heal: true}
`), known())
	for line, want := range map[string]string{
		":1: ": "at: is missing: must be a duration", ":2: ": `"soon": must be a duration`, ":3: ": "gpu: is missing: must be the GPU of xid",
		":4: ": `"none": must be an integer from 1`, ":5: ": "has 0 actions: must have exactly one of xid, lose", ":6: ": "has 2 actions",
		":7: ": "did you mean xid?", ":8: ": `"maybe": must be true, handle`, ":9: ": "remove the event", ":10: ": `"--how": must be an index`,
		":11: ": "must be off, a percentage", ":12: ": `"lots": must be a quantity`, ":13: ": "must be one of temperature",
		":14: ": "without gpu, must be driver", ":15: ": "remove gpu", ":16: ": `"g80": must be true or the name of a model: h100-80, l4`,
		":17: ": "must be off, or a list of profiles", ":18: ": "must be a mapping", ":19: ": `"-3s"`,
	} {
		found := false
		for text := range strings.Lines(err.Error()) {
			found = found || strings.HasPrefix(text, "s.yaml"+line) && strings.Contains(text, want)
		}
		if !found {
			t.Errorf("no error with %q and %q in:\n%v", line, want, err)
		}
	}
	for name, text := range map[string]string{"an empty file": "", "a mapping": "at: 3s", "no YAML": "- {at: 3s"} {
		if _, err := scenario.Parse("s.yaml", []byte(text), scenario.Known{}); err == nil || !strings.HasPrefix(err.Error(), "s.yaml") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestPlay(t *testing.T) {
	t.Parallel()
	steps := []scenario.Step{{Line: 1}, {At: time.Millisecond, Line: 2}}
	var lines []int
	record := func(_ context.Context, s scenario.Step) error {
		lines = append(lines, s.Line)
		return nil
	}
	assert.NilError(t, scenario.Play(t.Context(), steps, 2, record))
	assert.DeepEqual(t, lines, []int{1, 2, 1, 2})
	broken := errors.New("no such GPU")
	err := scenario.Play(t.Context(), steps, 1, func(context.Context, scenario.Step) error { return broken })
	if !errors.Is(err, broken) || err.Error() != "line 1: no such GPU" {
		t.Errorf("error %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	err = scenario.Play(ctx, steps, 0, func(context.Context, scenario.Step) error { cancel(); return nil })
	assert.ErrorIs(t, err, context.Canceled)
	if err := scenario.Play(t.Context(), steps[:1], 0, record); err == nil || !strings.Contains(err.Error(), "later time") {
		t.Errorf("a scenario without time, repeated without an end: %v", err)
	}
}

func TestValues(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]scenario.Range{"0": {}, "75": {Low: 75, High: 75}, "60-90": {Low: 60, High: 90}, "100": {Low: 100, High: 100}} {
		got, err := scenario.ParseRange(text, scenario.Percent)
		if err != nil || got != want || got.String() != text {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "-", "90-60", "101", "50-101", "60-", "-5", "1.5", "60-70-80", "60 %"} {
		if _, err := scenario.ParseRange(text, scenario.Percent); err == nil || !strings.Contains(err.Error(), "60-90") {
			t.Errorf("range %q: %v", text, err)
		}
	}
	for text, want := range map[string]uint64{"20Gi": 20 << 30, "0": 0, "1500M": 1500e6} {
		got, err := scenario.ParseMemory(text)
		if err != nil || got != want {
			t.Errorf("%s: %d, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "lots", "-1Gi", "20GB", "100m", "100E9999"} {
		if got, err := scenario.ParseMemory(text); err == nil || !strings.Contains(err.Error(), "20Gi") {
			t.Errorf("memory %q: %d, %v", text, got, err)
		}
	}
}
