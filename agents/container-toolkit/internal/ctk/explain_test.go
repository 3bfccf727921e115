package ctk_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// explained returns the path of a config.toml whose CDI specs describe one GPU.
func explained(t *testing.T, lines string) string {
	t.Helper()
	dir := t.TempDir()
	for name, data := range map[string]string{
		"config.toml": fmt.Sprintf("%s\n[nvidia-container-runtime.modes.cdi]\nspec-dirs = [%q]\n", lines, dir),
		"gpu.yaml": "cdiVersion: 0.5.0\nkind: nvidia.com/gpu\ndevices:\n- name: \"0\"\n  containerEdits:\n    deviceNodes: [{path: /dev/nvidia0, type: c, major: 195, permissions: rw}]\n" +
			"containerEdits:\n  mounts:\n  - {hostPath: /d/libcuda.so.1, containerPath: /usr/lib64/libcuda.so.1, options: [ro]}\n  - {hostPath: /usr/lib64/libnvcuvid.so.1, containerPath: /usr/lib64/libnvcuvid.so.1}\n",
		"config.json": `{"process":{"env":["NVIDIA_VISIBLE_DEVICES=0"]}}`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "config.toml")
}

func TestExplain(t *testing.T) {
	cfg := explained(t, "")
	for name, args := range map[string][]string{"variables": {"NVIDIA_VISIBLE_DEVICES=0"}, "a bundle": {filepath.Dir(cfg)}, "a config.json": {filepath.Join(filepath.Dir(cfg), "config.json")}} {
		out, stderr, code := nvidiaCTK(t, append([]string{"--config", cfg, "explain"}, args...)...)
		if code != 0 {
			t.Errorf("%s: %s", name, stderr)
		}
		for _, want := range []string{
			`devices +0 +\(NVIDIA_VISIBLE_DEVICES\)`, `capabilities +compute, utility +\(the default`, `mode +cdi +\(there is a CDI spec`,
			`CDI device +nvidia.com/gpu=0 +\(.*/gpu.yaml\)`, `adds +device node /dev/nvidia0 c 195:0 rw\n`,
			`adds +mount /usr/lib64/libcuda.so.1 from /d/libcuda.so.1 ro\n`, `leaves out +/usr/lib64/libnvcuvid.so.1 +\(no capability`,
		} {
			if !regexp.MustCompile(want).MatchString(out) {
				t.Errorf("%s: %q is missing in\n%s", name, want, out)
			}
		}
	}
}

func TestExplainRefusals(t *testing.T) {
	for name, c := range map[string]struct {
		lines string
		args  []string
		want  string
	}{
		"a device that is not there": {"", []string{"NVIDIA_VISIBLE_DEVICES=7"}, "the container is refused: inject GPUs: unresolvable CDI devices nvidia.com/gpu=7"},
		"an allocation":              {"accept-nvidia-visible-devices-envvar-when-unprivileged = false", []string{"NVIDIA_VISIBLE_DEVICES=GPU-1"}, "accept-nvidia-visible-devices-envvar-when-unprivileged is false in config.toml: set it to true"},
		"MIG rights":                 {"", []string{"NVIDIA_VISIBLE_DEVICES=0", "NVIDIA_MIG_CONFIG_DEVICES=all"}, "needs a privileged container"},
		"no argument":                {"", nil, "name a bundle, or variables"},
		"no variable":                {"", []string{"A=1", "B"}, `"B" has no value`},
		"two bundles":                {"", []string{"/a", "/b"}, "unexpected argument"},
		"no bundle":                  {"", []string{"/nowhere"}, "/nowhere/config.json"},
	} {
		t.Run(name, func(t *testing.T) {
			out, stderr, code := nvidiaCTK(t, append([]string{"--config", explained(t, c.lines), "explain"}, c.args...)...)
			if code != 1 || !strings.Contains(stderr, c.want) {
				t.Errorf("explain prints %q, %q, want %q", out, stderr, c.want)
			}
		})
	}
}

func TestExplainWithoutGPU(t *testing.T) {
	cfg := explained(t, "accept-nvidia-visible-devices-envvar-when-unprivileged = false")
	out, stderr, code := nvidiaCTK(t, "--config", cfg, "explain", "NVIDIA_VISIBLE_DEVICES=all")
	if code != 0 || !strings.Contains(out, "no GPU container") || !strings.Contains(out, "is ignored: the container is not privileged") || strings.Contains(out, "adds") {
		t.Errorf("explain prints %q, %q", out, stderr)
	}
	if out, _, _ := nvidiaCTK(t, "--config", cfg, "explain", "--privileged", "NVIDIA_VISIBLE_DEVICES=0"); !strings.Contains(out, "adds") {
		t.Errorf("explain --privileged prints %q", out)
	}
	if out, _, _ := nvidiaCTK(t, "--config", cfg, "explain", "--annotation", "cdi.k8s.io/x=nvidia.com/gpu=0", "A=1"); !strings.Contains(out, "adds") {
		t.Errorf("explain --annotation prints %q", out)
	}
	if out, _, _ := nvidiaCTK(t, "--config", cfg, "explain", "--privileged", "--mode", "legacy", "NVIDIA_VISIBLE_DEVICES=0"); !strings.Contains(out, "prestart hook") {
		t.Errorf("explain --mode legacy prints %q", out)
	}
}

func TestInfo(t *testing.T) {
	cfg := explained(t, "[nvidia-container-runtime]\nruntimes = [\"/bin/sh\"]")
	out, stderr, code := nvidiaCTK(t, "--config", cfg, "info")
	for _, want := range []string{"config file +.*config.toml\n", `mode +auto\n`, `low-level runtime +/bin/sh\n`, "driver +", "CDI spec +.*gpu.yaml: 1 devices of kind nvidia.com/gpu, version 0.5.0\n"} {
		if code != 0 || !regexp.MustCompile(want).MatchString(out) {
			t.Errorf("info prints %q, %q, want %q", out, stderr, want)
		}
	}
}
