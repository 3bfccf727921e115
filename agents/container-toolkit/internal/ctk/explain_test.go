package ctk_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/golden"
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
		assert.NilError(t, os.WriteFile(filepath.Join(dir, name), []byte(data), 0o600))
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
			`adds +mount /d/libcuda.so.1 at /usr/lib64/libcuda.so.1\n`, `leaves out +libnvcuvid +\(no capability`,
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
		"a device that is not there": {"", []string{"NVIDIA_VISIBLE_DEVICES=7"}, "the container is rejected: inject GPUs: unresolvable CDI devices nvidia.com/gpu=7"},
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
	annotation := []string{"--config", cfg, "explain", "--annotation", "cdi.k8s.io/x=nvidia.com/gpu=0"}
	if out, stderr, code := nvidiaCTK(t, append(annotation, "A=1")...); code != 1 || strings.Contains(out, "adds") || !strings.Contains(stderr, "accept-cdi-annotations-when-unprivileged is false") {
		t.Errorf("explain --annotation prints %q, %q", out, stderr)
	}
	if out, _, _ := nvidiaCTK(t, append(annotation, "--privileged", "A=1")...); !strings.Contains(out, "adds") {
		t.Errorf("explain --annotation --privileged prints %q", out)
	}
	t.Setenv("PATH", t.TempDir())
	out, stderr, code = nvidiaCTK(t, "--config", cfg, "explain", "--privileged", "--mode", "legacy", "NVIDIA_VISIBLE_DEVICES=0")
	if code != 1 || !strings.Contains(out, "prestart hook") || !strings.Contains(stderr, "there is no program nvidia-container-runtime-hook") {
		t.Errorf("explain --mode legacy without the hook prints %q, %q", out, stderr)
	}
	assert.NilError(t, os.WriteFile(filepath.Join(os.Getenv("PATH"), "nvidia-container-runtime-hook"), nil, 0o700))
	if out, stderr, code := nvidiaCTK(t, "--config", cfg, "explain", "--privileged", "--mode", "legacy", "NVIDIA_VISIBLE_DEVICES=0"); code != 0 {
		t.Errorf("explain --mode legacy prints %q, %q", out, stderr)
	}
}

// On a node, what the mode cdi gives comes from the specs that nvidia-ctk writes.
func TestExplainOnANode(t *testing.T) {
	h := newHost(t)
	specs := t.TempDir()
	cfg := fmt.Sprintf("[nvidia-container-cli]\nroot = %q\n[nvidia-container-runtime.modes.cdi]\nspec-dirs = [%q]\n", "/", specs)
	assert.NilError(t, os.WriteFile(filepath.Join(h.dir, "config.toml"), []byte(cfg), 0o600))
	if _, stderr, err := h.ctk("cdi", "generate", "--output", filepath.Join(specs, "nvidia.json")); err != nil {
		t.Fatal(err, stderr)
	}
	for name, args := range map[string][]string{
		"index":        {"--compare", "NVIDIA_VISIBLE_DEVICES=0"},
		"all-graphics": {"--compare", "NVIDIA_VISIBLE_DEVICES=all", "NVIDIA_DRIVER_CAPABILITIES=all"},
		"mig":          {"NVIDIA_VISIBLE_DEVICES=1:0", "NVIDIA_REQUIRE_CUDA=cuda>=12.0 brand=geforce", "NVIDIA_DRIVER_CAPABILITIES=utility"},
		"none":         {"NVIDIA_VISIBLE_DEVICES=none", "NVIDIA_DRIVER_CAPABILITIES=utility"},
		"too-old":      {"NVIDIA_VISIBLE_DEVICES=0", "NVIDIA_REQUIRE_CUDA=cuda>=99.0", "NVIDIA_REQUIRE_ARCH=arch>=8.0"},
	} {
		t.Run(name, func(t *testing.T) {
			stdout, stderr, err := h.ctk(append([]string{"explain"}, args...)...)
			code := ""
			if err != nil {
				code = err.Error() + "\n"
			}
			golden.Assert(t, strings.NewReplacer(specs, "SPECS", h.dir, "DIR").Replace(stdout+"--- standard error\n"+stderr+code), "explain-"+name+".golden")
		})
	}
}

// A difference between the modes is shown, here of a spec that someone has edited.
func TestExplainComparesTheModes(t *testing.T) {
	h := newHost(t)
	specs := t.TempDir()
	assert.NilError(t, os.WriteFile(filepath.Join(h.dir, "config.toml"), fmt.Appendf(nil, "[nvidia-container-runtime.modes.cdi]\nspec-dirs = [%q]\n", specs), 0o600))
	stdout, stderr, err := h.ctk("cdi", "generate", "--format", "json")
	if err != nil {
		t.Fatal(err, stderr)
	}
	edited := strings.Replace(stdout, `"hostPath": "/usr/bin/nvidia-smi"`, `"hostPath": "/opt/nvidia-smi"`, 1)
	assert.NilError(t, os.WriteFile(filepath.Join(specs, "nvidia.json"), []byte(edited), 0o600))
	got, stderr, err := h.ctk("explain", "--compare", "NVIDIA_VISIBLE_DEVICES=0")
	const want = "/usr/bin/nvidia-smi (only in the mode cdi)\n/usr/bin/nvidia-smi (only in the mode legacy)\n"
	if err != nil || !strings.HasSuffix(got, want) {
		t.Errorf("explain --compare prints %s, %s, want %q at the end", got, stderr, want)
	}
	if _, stderr, err := h.ctk("explain", "--compare", "NVIDIA_VISIBLE_DEVICES=void"); err == nil || !strings.Contains(stderr, "use --mode cdi") {
		t.Errorf("explain --compare of a container without GPU = %v, %s", err, stderr)
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
