package kubectl_test

import (
	"path/filepath"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
)

// TestDoctor compares the diagnosis of a cluster with the diagnosis of its archive.
func TestDoctor(t *testing.T) {
	r := newRig(t)
	archive := filepath.Join(t.TempDir(), "a.tar.gz")
	out, code := r.run("must-gather", "--dest="+archive)
	assert.Equal(t, code, 0, out)
	for name, tc := range map[string]struct {
		args []string
		want string
		code int
	}{
		"the cluster":      {nil, "1. ToolkitNotReady (toolkit, waits) on node gpu-2", 3},
		"a node":           {[]string{"gpu-2"}, "node gpu-2: the chain breaks at the link toolkit: ToolkitNotReady", 3},
		"a working node":   {[]string{"gpu-1"}, "node gpu-1 works", 0},
		"a pod":            {[]string{"ml/train"}, "pod ml/train has its GPUs", 0},
		"a pod by flag":    {[]string{"pod/train", "-n", "ml"}, "pod ml/train has its GPUs", 0},
		"an absent pod":    {[]string{"ml/gone"}, "pod ml/gone does not exist", 1},
		"a report":         {[]string{"-o", "json", "gpu-2"}, `"code": "ToolkitNotReady"`, 3},
		"a report as YAML": {[]string{"gpu-2", "-o", "yaml"}, "- code: ToolkitNotReady", 3},
	} {
		t.Run(name, func(t *testing.T) {
			live, code := rig{r.In(t), r.config, r.kubelet}.run(append([]string{"doctor"}, tc.args...)...)
			if !strings.Contains(live, tc.want) || code != tc.code {
				t.Errorf("exit code %d:\n%s", code, live)
			}
			offline, code := r.run(append([]string{"doctor", "--offline", archive}, tc.args...)...)
			if seen(offline) != seen(live) || code != tc.code {
				t.Errorf("exit code %d from the archive:\n%s\nlive:\n%s", code, offline, live)
			}
		})
	}
	for _, args := range [][]string{{"doctor", "a", "b"}, {"doctor", "a/b/c"}, {"doctor", "-o", "xml"}} {
		if out, code := r.run(args...); code != 2 {
			t.Errorf("%v: exit code %d: %s", args, code, out)
		}
	}
	if out, code := r.run("doctor", "gpu-9"); code != 1 || !strings.Contains(out, "no node gpu-9") {
		t.Errorf("exit code %d: %s", code, out)
	}
}

// seen returns a report without its times and without the list of parts that were not seen.
func seen(report string) string {
	report, _, _ = strings.Cut(report, "\nnot seen")
	report, _, _ = strings.Cut(report, "\nunseen")
	var lines []string
	for line := range strings.Lines(report) {
		if !strings.Contains(line, "taken") {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "")
}
