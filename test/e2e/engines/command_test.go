//go:build e2e

package engines_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const sharing = `version: v1
sharing:
  timeSlicing:
    resources:
    - name: nvidia.com/gpu
      replicas: 4
`

// TestSnapshot shows the GPUs to the command in each way that people have.
func TestSnapshot(t *testing.T) {
	e := newEngine(t, newNode(t))
	for name, c := range map[string]struct {
		options []string
		shown   int
		log     string
	}{
		"by each device node":            {slices.Concat(driver(), devices(gpus)), gpus, ""},
		"by a rule for all device nodes": {slices.Concat(driver(), []string{"-v", "/dev:/dev", "--device-cgroup-rule=c 195:* rw"}), gpus, ""},
		"as NVIDIA's runtime does it":    {slices.Concat(injected(), devices(gpus)), gpus, ""},
		"but for some device nodes":      {slices.Concat(driver(), devices(gpus-1)), gpus - 1, "this process has no /dev/nvidia7"},
	} {
		t.Run(name, func(t *testing.T) {
			stdout, stderr, err := e.once(slices.Concat(safely(), c.options, []string{e.image("device-plugin"), "snapshot"})...)
			if err != nil {
				t.Fatalf("docker run: %v: %s", err, stderr)
			}
			if got := strings.Count(stdout, `"uuid": "GPU-`); got != c.shown {
				t.Errorf("%d GPUs are shown, want %d", got, c.shown)
			}
			if !strings.Contains(stderr, c.log) || (stderr == "") != (c.log == "") {
				t.Errorf("log is %q, want %q in it", stderr, c.log)
			}
		})
	}
}

// injected are the options for what NVIDIA's runtime mounts for "--gpus all":
// the library and the firmware, at their places on the host. The simulated
// driver keeps its state as firmware.
func injected() []string {
	const library = "/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1"
	return []string{"-v", library + ":" + library + ":ro", "-v", "/lib/firmware/nvidia:/lib/firmware/nvidia:ro"}
}

func TestConfigIsCheckedWithoutGPUs(t *testing.T) {
	e := newEngine(t, newNode(t))
	image := e.image("device-plugin")
	dir := shortDir(t)
	write(t, dir, "config.yaml", sharing)
	write(t, dir, "bad.yaml", strings.Replace(sharing, "replicas: 4", "replica: 4", 1))
	snapshot, stderr, err := e.once(slices.Concat(safely(), driver(), devices(gpus), []string{image, "snapshot"})...)
	if err != nil {
		t.Fatalf("docker run snapshot: %v: %s", err, stderr)
	}
	write(t, dir, "node.json", snapshot)
	run := func(args ...string) (string, string, error) {
		return e.once(slices.Concat(safely(), []string{"-v", dir + ":/config:ro", image}, args)...)
	}

	if stdout, stderr, err := run("validate", "--config", "/config/config.yaml"); err != nil || !strings.Contains(stdout, "valid") {
		t.Errorf("validate: %v: %s%s", err, stdout, stderr)
	}
	if stdout, stderr, err := run("validate", "--config", "/config/bad.yaml"); err == nil || !strings.Contains(stdout, "/config/bad.yaml:6: ") {
		t.Errorf("validate of a file with a mistake in line 6: %v: %s%s", err, stdout, stderr)
	}
	stdout, stderr, err := run("explain", "--config", "/config/config.yaml", "--node", "/config/node.json")
	if line := strings.Fields("nvidia.com/gpu 32 32 time-slicing"); err != nil || !slices.ContainsFunc(strings.Split(stdout, "\n"),
		func(l string) bool { return slices.Equal(strings.Fields(l), line) }) {
		t.Errorf("explain: %v, want %v in: %s%s", err, line, stdout, stderr)
	}
}

func write(t *testing.T, dir, name, content string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}
