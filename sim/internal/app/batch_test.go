package app_test

import (
	"strings"
	"testing"

	"gotest.tools/v3/assert"
)

// batch runs gpu-sim batch with lines as its standard input.
func (s sim) batch(lines ...string) (out string, err error) {
	s.t.Helper()
	cmd := s.command(s.t.Context(), "batch")
	cmd.Stdin = strings.NewReader(strings.Join(lines, "\n"))
	data, err := cmd.CombinedOutput()
	return string(data), err
}

func TestABatchRunsOneCommandALine(t *testing.T) {
	needRoot(t)
	s := newSim(t)
	s.must("create", "--gpus", "2")
	out, err := s.batch("xid 0 79", "", "  set 1.temperature=85   1.recovery=reset", "lose 0")
	assert.NilError(t, err, "%s", out)
	if n := strings.Count(out, "ok\n"); n != 3 || !strings.HasPrefix(out, "XID 79 on GPU 0") || !strings.HasSuffix(out, "\nok\n") {
		t.Errorf("3 commands are answered with:\n%s", out)
	}
	gpus := s.show().GPUs
	if gpus[0].Lost == "" || gpus[1].Recovery != "reset" {
		t.Errorf("after the batch the GPUs are %+v", gpus)
	}
}

func TestBatchEndsAtTheFirstError(t *testing.T) {
	needRoot(t)
	s := newSim(t)
	s.must("create", "--gpus", "1")
	for line, want := range map[string]string{
		"xid 7 79":         "gpu-sim: batch: line 2: xid: GPU \"7\"",
		"exec -- true":     "gpu-sim: batch: line 2: exec uses standard input",
		"batch":            "gpu-sim: batch: line 2: batch uses standard input",
		"xid --nonsense 0": "gpu-sim: batch: line 2: unknown flag --nonsense",
	} {
		out, err := s.batch("set 0.temperature=60", line, "lose 0")
		if err == nil || !strings.Contains(out, want) || strings.Count(out, "ok\n") != 1 {
			t.Errorf("%s: %v\n%s", line, err, out)
		}
	}
	if g := s.show().GPUs[0]; g.Lost != "" {
		t.Error("a command after the mistake has run")
	}
}
