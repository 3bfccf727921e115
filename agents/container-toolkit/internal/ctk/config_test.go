package ctk_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"outrigger.dev/agents/container-toolkit/internal/ctk"
	"outrigger.dev/agents/container-toolkit/internal/toolconfig"
)

// nvidiaCTK runs the program, and returns what it prints.
func nvidiaCTK(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, err bytes.Buffer
	code = ctk.Main(append([]string{"nvidia-ctk"}, args...), strings.NewReader(""), &out, &err)
	return out.String(), err.String(), code
}

func TestConfig(t *testing.T) {
	path := filepath.Join(t.TempDir(), "etc", "config.toml")
	if out, stderr, code := nvidiaCTK(t, "config", "create-default", "--output", path); code != 0 || out != "" {
		t.Fatalf("create-default prints %q, %q", out, stderr)
	}
	set := []string{"config", "--config", path, "--set", "nvidia-container-runtime.runtimes=crun:runc", "--set", "disable-require", "--set", "swarm-resource=A,B", "--set=nvidia-container-runtime.debug=nil"}
	out, stderr, code := nvidiaCTK(t, set...)
	for _, want := range []string{`runtimes = ["crun", "runc"]`, "disable-require = true", `swarm-resource = "A,B"`, "# auto, cdi, csv, jit-cdi, legacy"} {
		if code != 0 || !strings.Contains(out, want) {
			t.Errorf("config prints %q, %q, want %q", out, stderr, want)
		}
	}
	if data, err := os.ReadFile(path); err != nil || !bytes.Equal(data, toolconfig.DefaultFile()) {
		t.Errorf("the file was changed: %s, %v", data, err)
	}
	if printed, stderr, code := nvidiaCTK(t, append(set, "-i")...); code != 0 || printed != "" {
		t.Errorf("config --in-place prints %q, %q", printed, stderr)
	}
	if data, err := os.ReadFile(path); err != nil || string(data) != out {
		t.Errorf("--in-place writes %s, %v, want what was printed before", data, err)
	}
	if again, _, _ := nvidiaCTK(t, "--config", path, "config"); again != out {
		t.Errorf("config prints %s, want the file", again)
	}
	if out, _, code := nvidiaCTK(t, "config", "-c", filepath.Join(t.TempDir(), "none")); code != 0 || out != string(toolconfig.DefaultFile()) {
		t.Errorf("config of a file that does not exist prints %q", out)
	}
}

// Both variables name the file, and only its warnings are quiet.
func TestVariablesOfTheProgram(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.toml")
	assert.NilError(t, os.WriteFile(path, []byte("unknown = 1\n"), 0o600))
	for _, variable := range []string{"NVIDIA_CTK_CONFIG", "NVIDIA_CTK_CONFIG_FILE_PATH"} {
		t.Run(variable, func(t *testing.T) {
			t.Setenv(variable, path)
			if _, stderr, _ := nvidiaCTK(t, "info"); !strings.Contains(stderr, path+": line 1: unknown key unknown") {
				t.Errorf("info prints %q", stderr)
			}
			if _, stderr, code := nvidiaCTK(t, "config", "--config-file", path); !strings.Contains(stderr, path+": line 1: unknown key unknown") || code != 0 {
				t.Errorf("config prints %q, exit code %d", stderr, code)
			}
			t.Setenv("NVIDIA_CTK_QUIET", "true")
			if _, stderr, code := nvidiaCTK(t, "info"); stderr != "" || code != 0 {
				t.Errorf("info prints %q quietly, exit code %d", stderr, code)
			}
		})
	}
}

func TestConfigRejects(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.toml")
	for want, args := range map[string][]string{
		"no such key":                  {"--set", "x=1"},
		"set only one of them":         {"-i", "-o", path},
		"neither true nor false":       {"--set", "disable-require=x"},
		"the program of the host":      {"--set", "nvidia-container-cli.ldconfig=/sbin/ldconfig"},
		"unknown command \"default-\"": {"default-"},
	} {
		if out, stderr, code := nvidiaCTK(t, append([]string{"config", "-c", path}, args...)...); code != 1 || !strings.Contains(stderr, want) {
			t.Errorf("config %q prints %q, %q, want %q", args, out, stderr, want)
		}
	}
}
