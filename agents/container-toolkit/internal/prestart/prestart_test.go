package prestart_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/opencontainers/runtime-spec/specs-go"
	"gotest.tools/v3/assert"
)

// hook runs the hook on a bundle, with a program that prints its arguments, and two
// variables, in the place of nvidia-container-cli. One is in the environment of the hook,
// as that of the container is with some runtimes: it would mount a folder of the host.
func hook(t *testing.T, config, state string, spec *specs.Spec, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) string {
		p := filepath.Join(dir, name)
		assert.NilError(t, os.WriteFile(p, []byte(text), mode))
		return p
	}
	cli := write("cli", "#!/bin/sh\nprintf '%s\\n' \"$@\" $ADDED $CUDA_MPS_PIPE_DIRECTORY\n", 0o755)
	if spec != nil {
		data, err := json.Marshal(spec)
		assert.NilError(t, err)
		write("config.json", string(data), 0o644)
	}
	self, err := os.Executable()
	assert.NilError(t, err)
	cmd := exec.CommandContext(t.Context(), self, append([]string{"-config", write("config.toml", strings.ReplaceAll(config, "CLI", cli), 0o644)}, args...)...)
	cmd.Args[0] = "nvidia-container-runtime-hook"
	cmd.Env = append(os.Environ(), "CUDA_MPS_PIPE_DIRECTORY=/etc")
	cmd.Stdin = strings.NewReader(strings.ReplaceAll(state, "BUNDLE", dir))
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	err = cmd.Run()
	return strings.ReplaceAll(out.String(), dir, "BUNDLE"), strings.ReplaceAll(errs.String(), dir, "BUNDLE"), err
}

const (
	withCLI = "[nvidia-container-cli]\npath = \"CLI\"\nldconfig = \"@/sbin/ldconfig\"\n"
	state   = `{"ociVersion":"1.0.2","id":"c","pid":42,"bundle":"BUNDLE"}`
)

func container(env ...string) *specs.Spec {
	return &specs.Spec{Root: &specs.Root{Path: "rootfs"}, Process: &specs.Process{Env: env}}
}

func TestArguments(t *testing.T) {
	privileged := container("NVIDIA_VISIBLE_DEVICES=all", "NVIDIA_MIG_CONFIG_DEVICES=all", "NVIDIA_MIG_MONITOR_DEVICES=all", "NVIDIA_IMEX_CHANNELS=2,channel7")
	privileged.Process.Capabilities = &specs.LinuxCapabilities{Bounding: []string{"CAP_SYS_ADMIN"}}
	absolute := container("NVIDIA_VISIBLE_DEVICES=none", "NVIDIA_DRIVER_CAPABILITIES=all")
	absolute.Root.Path = "/var/lib/docker/merged"
	annotated := container("NVIDIA_VISIBLE_DEVICES=0")
	annotated.Annotations = map[string]string{"cdi.k8s.io/x": "nvidia.com/gpu=1"}
	for name, tc := range map[string]struct {
		config, state string
		spec          *specs.Spec
		want          string
	}{
		"two GPUs": {
			withCLI, state, container("NVIDIA_VISIBLE_DEVICES=1,GPU-x"),
			"--load-kmods configure --cuda-compat-mode=ldconfig --ldconfig=@/sbin/ldconfig --device=1,GPU-x --compute --utility --pid=42 BUNDLE/rootfs",
		},
		"the driver without a GPU": {
			withCLI, state, absolute,
			"--load-kmods configure --cuda-compat-mode=ldconfig --ldconfig=@/sbin/ldconfig --compat32 --compute --display --graphics --ngx --utility --video --pid=42 /var/lib/docker/merged",
		},
		"a privileged container with rights to MIG and IMEX": {
			withCLI, state, privileged,
			"--load-kmods configure --cuda-compat-mode=ldconfig --ldconfig=@/sbin/ldconfig --device=all --mig-config=all --mig-monitor=all --imex-channel=2 --imex-channel=7 --compute --utility --pid=42 BUNDLE/rootfs",
		},
		"requirements": {
			withCLI, state, container("NVIDIA_VISIBLE_DEVICES=0", "NVIDIA_REQUIRE_CUDA=cuda>=12.4 brand=tesla,driver>=470", "NVIDIA_REQUIRE_X=arch>=8.0"),
			"--load-kmods configure --cuda-compat-mode=ldconfig --ldconfig=@/sbin/ldconfig --device=0 --compute --utility --require=cuda>=12.4 brand=tesla,driver>=470 --require=arch>=8.0 --pid=42 BUNDLE/rootfs",
		},
		"annotations are not read": {
			withCLI, state, annotated,
			"--load-kmods configure --cuda-compat-mode=ldconfig --ldconfig=@/sbin/ldconfig --device=0 --compute --utility --pid=42 BUNDLE/rootfs",
		},
		"the state of an old runtime": {
			withCLI, `{"pid":42,"bundlePath":"BUNDLE"}`, container("NVIDIA_VISIBLE_DEVICES=0"),
			"--load-kmods configure --cuda-compat-mode=ldconfig --ldconfig=@/sbin/ldconfig --device=0 --compute --utility --pid=42 BUNDLE/rootfs",
		},
		"every key of the config": {
			`[nvidia-container-cli]
path = "CLI"
root = "/run/nvidia/driver"
load-kmods = false
no-pivot = true
debug = "/var/log/cli.log"
ldcache = "/etc/other.cache"
user = "root:video"
ldconfig = "@/opt/ldconfig"
no-cgroups = true
environment = ["ADDED=added"]
[nvidia-container-runtime.modes.legacy]
cuda-compat-mode = "hook"
[features]
disable-imex-channel-creation = true
`, state, container("NVIDIA_VISIBLE_DEVICES=0"),
			"--root=/run/nvidia/driver --no-create-imex-channels --no-pivot --debug=/var/log/cli.log --ldcache=/etc/other.cache --user=root:video " +
				"configure --cuda-compat-mode=ldconfig --ldconfig=@/opt/ldconfig --no-cgroups --device=0 --compute --utility --pid=42 BUNDLE/rootfs added",
		},
		"no CUDA compatibility libraries": {
			withCLI + "[nvidia-container-runtime.modes.legacy]\ncuda-compat-mode = \"hook\"\n[features]\ndisable-cuda-compat-lib-hook = true\n", state, container("NVIDIA_VISIBLE_DEVICES=0"),
			"--load-kmods configure --cuda-compat-mode=disabled --ldconfig=@/sbin/ldconfig --device=0 --compute --utility --pid=42 BUNDLE/rootfs",
		},
		"a container that asks for nothing": {withCLI, state, container("PATH=/bin"), ""},
		"a container whose variables do not count": {
			"accept-nvidia-visible-devices-envvar-when-unprivileged = false\n" + withCLI, state, container("NVIDIA_VISIBLE_DEVICES=all"), "",
		},
		"a CDI device with a mode that is not checked": {
			withCLI + "[nvidia-container-runtime]\nmode = \"cdi\"\n[nvidia-container-runtime-hook]\nskip-mode-detection = true\n", state, container("NVIDIA_VISIBLE_DEVICES=0"),
			"--load-kmods configure --cuda-compat-mode=ldconfig --ldconfig=@/sbin/ldconfig --device=0 --compute --utility --pid=42 BUNDLE/rootfs",
		},
	} {
		t.Run(name, func(t *testing.T) {
			stdout, stderr, err := hook(t, tc.config, tc.state, tc.spec, "prestart")
			assert.NilError(t, err, stderr)
			assert.Equal(t, strings.Join(strings.Split(strings.TrimSpace(stdout), "\n"), " "), tc.want)
		})
	}
}

func TestHookRefuses(t *testing.T) {
	const direct = "invoking the NVIDIA Container Runtime Hook directly (e.g. specifying the docker --gpus flag) is not supported. " +
		"Please use the NVIDIA Container Runtime (e.g. specify the --runtime=nvidia flag) instead"
	gpu := container("NVIDIA_VISIBLE_DEVICES=0")
	for name, tc := range map[string]struct {
		config, state string
		spec          *specs.Spec
		args, want    string
	}{
		"the mode cdi":              {withCLI + "[nvidia-container-runtime]\nmode = \"cdi\"\n", state, gpu, "prestart", direct},
		"a qualified CDI device":    {withCLI, state, container("NVIDIA_VISIBLE_DEVICES=nvidia.com/gpu=0"), "prestart", direct},
		"a state without pid":       {withCLI, `{"bundle":"BUNDLE"}`, gpu, "prestart", "find the container: its state has no pid"},
		"a state that is no JSON":   {withCLI, `{`, gpu, "prestart", "read container state"},
		"a bundle without config":   {withCLI, state, nil, "prestart", "read container spec: open BUNDLE/config.json"},
		"a config that is no TOML":  {"=", state, gpu, "prestart", "read config BUNDLE/config.toml"},
		"a cli that is missing":     {"[nvidia-container-cli]\npath = \"/nothing/cli\"\n", state, gpu, "prestart", "run /nothing/cli: no such file or directory"},
		"ldconfig of the container": {"[nvidia-container-cli]\nldconfig = \"/sbin/ldconfig\"\n", state, gpu, "prestart", "ldconfig"},
		"no command":                {withCLI, state, gpu, "", "no command"},
		"an unknown command":        {withCLI, state, gpu, "createRuntime", `unknown command "createRuntime"`},
		"an unknown flag":           {withCLI, state, gpu, "-x prestart", "flag provided but not defined: -x"},
	} {
		t.Run(name, func(t *testing.T) {
			stdout, stderr, err := hook(t, tc.config, tc.state, tc.spec, strings.Fields(tc.args)...)
			assert.ErrorContains(t, err, "exit status 1", fmt.Sprint(stdout, stderr))
			assert.Assert(t, strings.Contains(stderr, tc.want), stderr)
			assert.Equal(t, stdout, "")
			assert.Equal(t, strings.Count(stderr, "\n"), 1, stderr)
		})
	}
}

func TestOtherCommandsDoNothing(t *testing.T) {
	for _, command := range []string{"poststart", "poststop"} {
		stdout, stderr, err := hook(t, withCLI, "", nil, command)
		assert.NilError(t, err)
		assert.Equal(t, stdout+stderr, "")
	}
}

func TestVersionAndHelp(t *testing.T) {
	stdout, _, err := hook(t, withCLI, "", nil, "-version")
	assert.NilError(t, err)
	assert.Assert(t, strings.HasPrefix(stdout, "NVIDIA Container Runtime Hook version "), stdout)
	stdout, _, err = hook(t, withCLI, "", nil, "-help")
	assert.NilError(t, err)
	assert.Assert(t, strings.Contains(stdout, "prestart"), stdout)
}
