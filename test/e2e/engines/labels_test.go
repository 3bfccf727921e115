//go:build e2e

package engines_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// TestLabels prints the labels of the machine, as the documentation has it.
func TestLabels(t *testing.T) {
	e := newEngine(t, newNode(t))
	for name, options := range map[string][]string{
		"by a rule for all device nodes": slices.Concat(driver(), []string{"-v", "/dev:/dev", "--device-cgroup-rule=c 195:* rw"}),
		"as NVIDIA's runtime does it":    slices.Concat(injected(), devices(gpus)),
	} {
		t.Run(name, func(t *testing.T) {
			stdout, stderr, err := e.once(slices.Concat(safely(), options, []string{e.image("feature-discovery"), "--oneshot", "--publish=stdout"})...)
			if err != nil {
				t.Fatalf("docker run: %v: %s", err, stderr)
			}
			lines := strings.Split(strings.TrimSpace(stdout), "\n")
			if count := fmt.Sprintf("nvidia.com/gpu.count=%d", gpus); len(lines) < 20 || !slices.Contains(lines, count) || !slices.IsSorted(lines) {
				t.Errorf("labels are %q, want at least 20, ordered, with %s", lines, count)
			}
			if i := slices.IndexFunc(lines, func(l string) bool { return !strings.HasPrefix(l, "nvidia.com/") }); i >= 0 {
				t.Errorf("standard output has %q among the labels", lines[i])
			}
		})
	}
}
