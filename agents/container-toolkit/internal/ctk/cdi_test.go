package ctk_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/golden"

	"outrigger.dev/agents/container-toolkit/internal/ctk"
	"outrigger.dev/agents/container-toolkit/internal/facts"
	"outrigger.dev/agents/container-toolkit/internal/gpus"
	"outrigger.dev/pkg/gpu/simtest"
)

// host is a simulated node with nvidia-ctk.
type host struct {
	*simtest.Node
	t   *testing.T
	dir string
}

// newHost returns a node of two GPUs, of which the second is partitioned.
func newHost(t *testing.T) *host {
	t.Helper()
	// The name decides the UUIDs.
	n := simtest.New(t, "--gpus=2", "--name=golden")
	n.Run("mig mode", "1", "on")
	n.Run("reset", "1")
	n.Run("mig create", "1", "3g.20gb", "1g.5gb")
	return &host{Node: n, t: t, dir: programs(t)}
}

// ctk runs nvidia-ctk in the node, without a config file. It returns what it prints.
func (h *host) ctk(args ...string) (stdout, stderr string, err error) {
	h.t.Helper()
	cmd := h.Command(h.t.Context(), filepath.Join(h.dir, "nvidia-ctk"), append([]string{"--config", filepath.Join(h.dir, "config.toml")}, args...)...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err = cmd.Run()
	return out.String(), errs.String(), err
}

func TestGenerate(t *testing.T) {
	h := newHost(t)
	for name, args := range map[string][]string{
		"default":      nil,
		"one-hook":     {"--nvidia-cdi-hook-path=/usr/bin/nvidia-cdi-hook", "--enable-hook=prepare-container", "--format=json"},
		"five-hooks":   {"--nvidia-cdi-hook-path=/opt/nvidia-cdi-hook", "--ldconfig-path=/sbin/ldconfig.real", "--device-id=0"},
		"names":        {"--device-name-strategy=type-index", "--device-name-strategy=index", "--no-all-device", "--vendor=example.com", "--class=mig", "--nvidia-cdi-hook-path="},
		"management":   {"--mode=management", "--nvidia-cdi-hook-path=/usr/bin/nvidia-cdi-hook", "--format=json"},
		"mig":          {"--mode=mig"},
		"a-mig-device": {"--device=1:1", "--feature-flag=disable-ipc-discoverer", "--nvidia-cdi-hook-path=/usr/bin/nvidia-ctk", "--disable-hook=update-application-profile"},
	} {
		t.Run(name, func(t *testing.T) {
			stdout, stderr, err := h.ctk(append([]string{"cdi", "generate"}, args...)...)
			code := ""
			if err != nil {
				code = err.Error() + "\n"
			}
			golden.Assert(t, strings.ReplaceAll(stdout+"--- standard error\n"+stderr+code, h.dir, "DIR"), "generate-"+name+".golden")
		})
	}
}

// While another program changes GPUs, the command waits, and ends with exit code 3 after the limit.
func TestGenerateDuringAChangeOfGPUs(t *testing.T) {
	h := newHost(t)
	program := filepath.Join(h.dir, gpus.Program)
	script := "#!/bin/sh\necho '" + gpus.Program + ": read GPUs: lease is claimed by mig-manager (change of MIG layouts)' >&2\nexit 3\n"
	if err := errors.Join(os.Remove(program), os.WriteFile(program, []byte(script), 0o700)); err != nil { //nolint:gosec // it is a program
		t.Fatal(err)
	}
	for limit, want := range map[string]string{
		"0s":  "read GPUs: lease is claimed by mig-manager (change of MIG layouts)\n",
		"1ms": "waited 1ms for the exclusive use of NVML by another program to end: run ",
	} {
		_, stderr, err := h.ctk("cdi", "generate", "--lease-timeout="+limit)
		if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 3 || !strings.Contains(stderr, want) {
			t.Errorf("with --lease-timeout=%s: %v, %q, want exit code 3 and %q", limit, err, stderr, want)
		}
		if notes := strings.Count(stderr, "another program has exclusive use of NVML, waiting for at most 1ms: "); (notes == 1) != (limit == "1ms") {
			t.Errorf("with --lease-timeout=%s: %q", limit, stderr)
		}
	}
}

// Two specs with the same devices in one folder are as bad as none.
func TestGenerateBesideAnotherSpec(t *testing.T) {
	h := newHost(t)
	dir := t.TempDir()
	for _, step := range []struct{ args, err string }{
		{"--output nvidia.com-gpu.json", ""},
		{"--output nvidia.com-gpu.json", ""},
		{"--output nvidia.yaml", "nvidia.com-gpu.json defines nvidia.com/gpu="},
		{"--output other.yaml --class=other", ""},
		{"--output nvidia.yaml --device-name-strategy=type-index --no-all-device", "nvidia.com/gpu=none"},
	} {
		args := strings.Fields(step.args)
		args[1] = filepath.Join(dir, args[1])
		_, stderr, err := h.ctk(append([]string{"cdi", "generate"}, args...)...)
		if (err == nil) != (step.err == "") || !strings.Contains(stderr, step.err) {
			t.Errorf("%s: %v, %s; want %q", step.args, err, stderr, step.err)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "nvidia.yaml")); err == nil {
		t.Error("the file is written")
	}
}

func TestGenerateFollowsTheConfigFile(t *testing.T) {
	h := newHost(t)
	config := "[nvidia-container-runtime.modes.jit-cdi]\nnvcdi-disable-hooks = [\"update-ldcache\"]\n" +
		"[features]\ndisable-cuda-compat-lib-hook = true\n"
	args := []string{"cdi", "generate", "--nvidia-cdi-hook-path=/usr/bin/nvidia-cdi-hook", "--disable-hook=prepare-container"}
	all := []string{"update-ldcache", "enable-cuda-compat"}
	for text, left := range map[string]bool{"": false, config: true} {
		assert.NilError(t, os.WriteFile(filepath.Join(h.dir, "config.toml"), []byte(text), 0o600))
		stdout, stderr, err := h.ctk(args...)
		if err != nil {
			t.Fatal(err, stderr)
		}
		for _, part := range all {
			if strings.Contains(stdout, part) == left {
				t.Errorf("with the config %q, the spec has %s: %v", text, part, !left)
			}
		}
	}
}

// A file gets the facts beside it, and other users can read both.
func TestGenerateIntoAFile(t *testing.T) {
	h := newHost(t)
	out := filepath.Join(t.TempDir(), "cdi", "nvidia")
	if _, stderr, err := h.ctk("cdi", "generate", "--output", out); err != nil {
		t.Fatal(err, stderr)
	}
	data, err := os.ReadFile(out + ".yaml")
	assert.NilError(t, err)
	f, err := facts.Read(out+".yaml", data)
	if err != nil || f == nil {
		t.Fatalf("facts are %v, %v", f, err)
	}
	text, err := json.MarshalIndent(f.GPUs, "", "  ")
	assert.NilError(t, err)
	golden.Assert(t, string(text)+"\n", "facts.golden")
	for _, path := range []string{out + ".yaml", out + ".facts"} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o644 {
			t.Errorf("%s has mode %v, %v, want 0644", path, info, err)
		}
	}
	list, stderr, err := h.ctk("cdi", "list", "--spec-dir", filepath.Dir(out))
	if err != nil || stderr != "" {
		t.Fatal(err, stderr)
	}
	golden.Assert(t, list, "list.golden")
}

// What cannot be described leaves the spec that is there, and says what is missing.
func TestGenerateCompleteOrNotAtAll(t *testing.T) {
	h := newHost(t)
	out := filepath.Join(t.TempDir(), "nvidia.json")
	assert.NilError(t, os.WriteFile(out, []byte("{}"), 0o600))
	assert.NilError(t, os.Remove(filepath.Join(h.Root, "dev/nvidia0")))
	_, stderr, err := h.ctk("cdi", "generate", "--output", out)
	if err == nil || !strings.Contains(stderr, "device node nvidia0 is missing (make it: nvidia-modprobe -c 0)") {
		t.Errorf("nvidia-ctk prints %q, %v, want the missing node", stderr, err)
	}
	if data, err := os.ReadFile(out); err != nil || string(data) != "{}" {
		t.Errorf("the file has %d bytes, %v, want it untouched", len(data), err)
	}
}

// run runs nvidia-ctk in this process.
func run(stdin string, args ...string) (stdout, stderr string, code int) {
	var out, errs bytes.Buffer
	code = ctk.Main(append([]string{"nvidia-ctk", "--config=/nonexistent"}, args...), strings.NewReader(stdin), &out, &errs)
	return out.String(), errs.String(), code
}

func TestGenerateRejects(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		want []string
	}{
		"Tegra":              {[]string{"--mode=csv"}, []string{"mode csv is for NVIDIA's Tegra systems, which are not supported"}},
		"Tegra by its flags": {[]string{"--csv.file=/x"}, []string{"flag --csv.file (environment variable NVIDIA_CTK_CDI_GENERATE_CSV_FILES): invalid value \"/x\": must be empty: mode csv is not supported"}},
		"Windows":            {[]string{"--discovery-mode=wsl"}, []string{"mode wsl is for the Windows Subsystem for Linux"}},
		"an unknown mode":    {[]string{"--mode=nvml2"}, []string{`flag --mode (environment variable NVIDIA_CTK_CDI_GENERATE_MODE): "nvml2": must be auto, nvml, management`}},
		"several bad values": {
			[]string{"--device-name-strategy=name", "--format=toml", "--feature-flag=fast", "--enable-hook=all"},
			[]string{"flag --device-name-strategy (environment variable NVIDIA_CTK_CDI_GENERATE_DEVICE_NAME_STRATEGIES): \"name\"", `flag --format (environment variable NVIDIA_CTK_CDI_GENERATE_OUTPUT_FORMAT): "toml"`, `unknown value "fast"`, `flag --enable-hook (environment variable NVIDIA_CTK_CDI_GENERATE_ENABLED_HOOKS): "all"`},
		},
		"a format beside an extension": {[]string{"--output=/nonexistent/nvidia.yaml", "--format=toml"}, []string{`flag --format (environment variable NVIDIA_CTK_CDI_GENERATE_OUTPUT_FORMAT): "toml": must be json or yaml`}},
		"a relative root":              {[]string{"--driver-root=driver"}, []string{"driver root", "absolute"}},
	} {
		t.Run(name, func(t *testing.T) {
			stdout, stderr, code := run("", append([]string{"cdi", "generate"}, c.args...)...)
			if code != 1 || stdout != "" {
				t.Errorf("exit code %d, output %q", code, stdout)
			}
			for _, want := range c.want {
				if !strings.Contains(stderr, want) {
					t.Errorf("error %q lacks %q", stderr, want)
				}
			}
		})
	}
}

// TestGenerateNamesTheFoldersWithDebug generates without a driver: the error is one short line.
func TestGenerateNamesTheFoldersWithDebug(t *testing.T) {
	root := t.TempDir()
	const folder, searched = "/opt/nvidia/lib64", "nvidia-ctk: searched: libcuda.so.<version>: "
	if _, stderr, code := run("", "cdi", "generate", "--mode=management", "--driver-root="+root); code != 1 || strings.Contains(stderr, root+folder) {
		t.Errorf("exit code %d, and the error lists all folders: %s", code, stderr)
	} else if want := "nvidia-ctk: driver root " + root + " is incomplete"; !strings.HasPrefix(stderr, want) || strings.Count(stderr, "\n") != 1 {
		t.Errorf("got %q, want one line that begins with %q", stderr, want)
	}
	_, stderr, _ := run("", "--debug", "cdi", "generate", "--mode=management", "--driver-root="+root)
	if !strings.Contains(stderr, searched) || !strings.Contains(stderr, root+folder) {
		t.Errorf("with --debug, not all folders are listed: %s", stderr)
	}
}

func TestTransformRoot(t *testing.T) {
	const spec = `{"cdiVersion":"0.7.0","kind":"nvidia.com/gpu","devices":[{"name":"gpu0","containerEdits":{"deviceNodes":[
		{"path":"/dev/nvidia0","hostPath":"/run/nvidia/driver/dev/nvidia0"},{"path":"/dev/dri/card0"}]}}],
		"containerEdits":{"hooks":[
			{"hookName":"createContainer","path":"/run/nvidia/driver/usr/bin/hook","args":["hook","create-symlinks","--link","a.so::/run/nvidia/driver/lib/b.so"]},
			{"hookName":"startContainer","path":"/run/nvidia/driver/usr/bin/hook","args":["/run/nvidia/driver/x"]}],
		"mounts":[{"hostPath":"/run/nvidia/driver/lib/libcuda.so.1","containerPath":"/run/nvidia/driver/lib/libcuda.so.1"},
			{"hostPath":"/run/nvidia/driver2/lib","containerPath":"/lib2"}]}}`
	for name, args := range map[string][]string{
		"host":      {"--from=/run/nvidia/driver", "--to=/", "--relative-to=host"},
		"container": {"--from=/run/nvidia/driver/", "--to=/opt", "--relative-to=container"},
		"deeper":    {"--from=/", "--to=/run/host"},
	} {
		t.Run(name, func(t *testing.T) {
			stdout, stderr, code := run(spec, append([]string{"cdi", "transform", "root"}, args...)...)
			if code != 0 || stderr != "" {
				t.Fatalf("exit code %d, %s", code, stderr)
			}
			golden.Assert(t, stdout, "transform-"+name+".golden")
		})
	}
	for name, args := range map[string][]string{
		"no folder":      {"--to=/"},
		"another choice": {"--from=/", "--to=/x", "--relative-to=both"},
		"no spec":        {"--from=/", "--to=/x", "--input=/nonexistent"},
	} {
		if stdout, stderr, code := run("", append([]string{"cdi", "transform", "root"}, args...)...); code != 1 || stdout != "" || stderr == "" {
			t.Errorf("%s: exit code %d, output %q, error %q", name, code, stdout, stderr)
		}
	}
}
