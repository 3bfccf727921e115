package app_test

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"
	"gotest.tools/v3/assert"
	"gotest.tools/v3/golden"

	"outrigger.dev/agents/mig-manager/internal/app"
	"outrigger.dev/pkg/agent"
	"outrigger.dev/pkg/agent/agenttest"
)

// run runs nvidia-mig-parted.
func run(t *testing.T, args ...string) (code int, out, errs string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code = agent.Exec(t.Context(), app.Parted(), append([]string{"nvidia-mig-parted"}, args...), &stdout, &stderr)
	return code, stdout.String(), stderr.String()
}

// prints runs a command that succeeds, and compares its output with a golden file.
func prints(t *testing.T, name string, args ...string) {
	t.Helper()
	code, out, errs := run(t, args...)
	if code != 0 || errs != "" {
		t.Fatalf("exit code %d: %s", code, errs)
	}
	golden.Assert(t, out, strings.ReplaceAll(name, " ", "-")+".golden")
}

// fails runs a command that fails with one line.
func fails(t *testing.T, want string, args ...string) {
	t.Helper()
	code, _, errs := run(t, args...)
	if code != 1 || strings.Count(errs, "\n") != 1 || !strings.Contains(errs, want) {
		t.Errorf("exit code %d, want 1 and one line with %q:\n%s", code, want, errs)
	}
}

// file writes a file for the time of a test.
func file(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file.yaml")
	assert.NilError(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

const (
	defaults = "../migconfig/testdata/default-config.yaml"
	head     = "version: v1\nmig-configs:\n"
)

// TestFlagsOfNVIDIAsMIGManager has all of them, by their letters and by their words. The agent ends
// where it would connect to the API server.
func TestFlagsOfNVIDIAsMIGManager(t *testing.T) {
	short := []string{"-n", "node", "-f", "c", "-s", "s", "-m", "/host", "-i", "/i", "-o", "/o", "-k", "kubelet.service", "-g", "g", "-r", "-d", "-p", "ns", "-t", "/", "-a", "/", "-b", "/", "-j", "/"}
	long := []string{
		"--kubeconfig=", "--node-name=node", "--config-file=c", "--reconfigure-script=s", "--host-root-mount=/host", "--host-nvidia-dir=/i", "--host-mig-manager-state-file=/o",
		"--host-kubelet-systemd-service=k", "--gpu-clients-file=g", "--with-reboot", "--with-shutdown-host-gpu-clients", "--default-gpu-clients-namespace=ns", "--nvidia-driver-root=/",
		"--driver-root-ctr-path=/", "--cdi-enabled", "--dev-root=/", "--dev-root-ctr-path=/", "--nvidia-cdi-hook-path=/h",
	}
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	for _, name := range []string{"nvidia-mig-manager", "k8s-mig-manager", "nvidia-k8s-mig-manager"} {
		for _, args := range [][]string{short, long} {
			var out, errs bytes.Buffer
			code := agent.Exec(t.Context(), app.Named("/usr/bin/"+name), append([]string{name}, args...), &out, &errs)
			if code != 2 || !strings.Contains(errs.String(), "the agent reads a label of its Node") || strings.Contains(errs.String(), "unknown") {
				t.Errorf("%s %q: exit code %d: %s", name, args, code, errs.String())
			}
		}
	}
	for program, want := range map[string]string{"nvidia-mig-manager": "with-shutdown-host-gpu-clients", "mig-manager": "debug"} {
		flags := app.Named(program).Flags
		i := slices.IndexFunc(flags, func(f cli.Flag) bool { return slices.Contains(f.Names(), "d") })
		if got := flags[i].Names()[0]; got != want {
			t.Errorf("-d of %s is --%s, want --%s", program, got, want)
		}
	}
}

func TestAppIsValid(t *testing.T) {
	for _, a := range []agent.App{app.App(), app.Parted()} {
		if err := agenttest.CheckApp(a); err != nil {
			t.Error(err)
		}
		if err := agenttest.CheckHelp(a); err != nil {
			t.Error(err)
		}
	}
}

func TestNamed(t *testing.T) {
	for program, want := range map[string]string{
		"/usr/bin/nvidia-mig-parted": "nvidia-mig-parted", "mig-manager": "mig-manager", "/mig-manager.test": "mig-manager",
	} {
		if got := app.Named(program).Name; got != want {
			t.Errorf("%s is %s, want %s", program, got, want)
		}
	}
}

func TestHelp(t *testing.T) {
	var out, errs bytes.Buffer
	if code := agent.Exec(t.Context(), app.App(), []string{"mig-manager", "--help"}, &out, &errs); code != 0 {
		t.Fatalf("exit code %d: %s", code, errs.String())
	}
	golden.Assert(t, out.String(), "help.golden")
	prints(t, "help-parted")
	var commands strings.Builder
	for _, c := range app.Parted().Commands {
		code, out, errs := run(t, c.Name, "--help")
		if code != 0 {
			t.Fatalf("exit code %d: %s", code, errs)
		}
		commands.WriteString(out + "\n")
	}
	golden.Assert(t, commands.String(), "help-commands.golden")
}

func TestPlanForABoard(t *testing.T) {
	for name, args := range map[string][]string{
		"balanced":  {"-c", "all-balanced", "--board", "h100-80", "--draw"},
		"by reset":  {"-c", "all-2g.12gb", "--board", "a30"},
		"mode only": {"-c", "all-2g.12gb", "--board", "a30", "-m"},
		"off":       {"-c", "all-disabled", "--board", "a30", "--draw"},
		"json":      {"-c", "all-7g.80gb", "--board", "a100-80", "-o", "json"},
	} {
		t.Run(name, func(t *testing.T) {
			prints(t, "plan "+name, append([]string{"plan", "-f", defaults}, args...)...)
		})
	}
}

// The snapshot has a GPU with two MIG devices, one without MIG, and one that is lost.
func TestPlanForASnapshot(t *testing.T) {
	two := file(t, head+"  x:\n  - {devices: [0], mig-enabled: true, mig-devices: {1g.5gb: 1, 2g.10gb: 1}}\n  - {devices: [1], mig-enabled: true, mig-devices: {}}\n")
	code, out, errs := run(t, "plan", "-f", two, "--snapshot", "testdata/snapshot.json", "--draw")
	if code != 0 || !strings.Contains(errs, "the config does not select gpu, leaving it unchanged") {
		t.Fatalf("exit code %d: %s", code, errs)
	}
	golden.Assert(t, out, "plan-snapshot.golden")
	fails(t, "GPU 2 cannot be read: nvmlDeviceGetHandleByIndex_v2: GPU is lost: reset or repair it",
		"plan", "-f", defaults, "-c", "all-disabled", "--snapshot", "testdata/snapshot.json")
}

// The node's only GPU has no MIG mode, so a config for all GPUs changes nothing.
func TestPlanWarnsThatNoGPUHasAMIGMode(t *testing.T) {
	const warning = "so nothing changes: use a gpu that supports mig, or a config that turns mig off"
	snapshot := file(t, `[{"uuid": "GPU-1", "name": "NVIDIA L4"}]`)
	on := file(t, head+"  x: [{devices: all, mig-enabled: true, mig-devices: {1g.5gb: 7}}]\n")
	off := file(t, head+"  x: [{devices: all, mig-enabled: false}]\n")
	if code, _, errs := run(t, "plan", "-f", on, "--snapshot", snapshot); code != 0 || !strings.Contains(errs, warning) {
		t.Errorf("exit code %d: %s", code, errs)
	}
	if code, _, errs := run(t, "plan", "-f", off, "--snapshot", snapshot); code != 0 || errs != "" {
		t.Errorf("exit code %d: %s", code, errs)
	}
}

func TestPlanRejects(t *testing.T) {
	impossible := file(t, head+"  x: [{devices: all, mig-enabled: true, mig-devices: {1g.10gb: 3, 3g.40gb: 2}}]\n")
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"what does not fit": {
			[]string{"-f", impossible, "--board", "a100-80"},
			"GPU 0 (a100-80-0): fit 2 × 3g.40gb + 3 × 1g.10gb on one GPU: 3 × 1g.10gb is too much: 9 compute slices are needed, and the GPU has 7",
		},
		"another board":        {[]string{"-f", defaults, "-c", "all-1g.5gb", "--board", "a30"}, `config "all-1g.5gb" selects no GPU of the node, which has GPU 0 (0x20B710DE, a30): add an item for it`},
		"an unknown board":     {[]string{"-f", defaults, "-c", "all-1g.5gb", "--board", "a300"}, `flag --board (environment variable MIG_PARTED_BOARD): invalid value "a300": must be a100-40, `},
		"two sources":          {[]string{"-f", defaults, "-c", "all-1g.5gb", "--board", "a30", "--snapshot", "x"}, "flags --snapshot and --board: set only one of them"},
		"no file":              {[]string{"-c", "x"}, "flag --config-file (environment variable MIG_PARTED_CONFIG_FILE): is missing: it must name a file"},
		"a missing file":       {[]string{"-f", "/nowhere"}, "flag --config-file (environment variable MIG_PARTED_CONFIG_FILE): open /nowhere: no such file or directory"},
		"no name":              {[]string{"-f", defaults}, "flag --selected-config (environment variable MIG_PARTED_SELECTED_CONFIG): is missing: the file has several configs: must be all-1g.10gb, "},
		"another name":         {[]string{"-f", defaults, "-c", "all"}, `selected mig-config not present: "all": must be all-1g.10gb, `},
		"a broken config":      {[]string{"-f", file(t, "version: v1\n")}, "mig-configs: is missing: must be at least one config by its name"},
		"a snapshot of others": {[]string{"-f", impossible, "--snapshot", file(t, `{"gpus": []}`)}, "it must be the output of the command snapshot"},
		"an empty snapshot":    {[]string{"-f", impossible, "--snapshot", file(t, `[]`)}, "it has no GPUs"},
		"a GPU twice":          {[]string{"-f", impossible, "--snapshot", file(t, `[{"uuid": "GPU-1"}, {"index": 1, "uuid": "GPU-1"}]`)}, "the UUID of GPU 1 is missing or not unique"},
		"a format":             {[]string{"-f", impossible, "-o", "xml"}, `flag --output-format (environment variable MIG_PLAN_OUTPUT_FORMAT): invalid value "xml": must be text or json`},
		"an argument":          {[]string{"now"}, `unexpected argument "now"`},
	} {
		t.Run(name, func(t *testing.T) { fails(t, tc.want, append([]string{"plan"}, tc.args...)...) })
	}
}

func TestGenerateForABoard(t *testing.T) {
	prints(t, "generate a30", "generate", "--board", "a30")
	path := filepath.Join(t.TempDir(), "out.json")
	if code, out, errs := run(t, "generate-config", "--board", "a30", "-o", "json", "-f", path); code != 0 || out != "" {
		t.Fatalf("exit code %d: %s%s", code, out, errs)
	}
	if code, _, errs := run(t, "validate", "-f", path, "--board", "a30"); code != 0 {
		t.Errorf("the generated config is not valid: %s", errs)
	}
}

func TestValidate(t *testing.T) {
	prints(t, "validate defaults", "validate", "-f", defaults)
	const mixed = "testdata/mixed.yaml"
	code, out, errs := run(t, "validate", "-f", mixed)
	if code != 1 || !strings.Contains(errs, `unknown product, not checking its devices in the config" device_filter=0x999910DE config=future`) ||
		!strings.HasSuffix(errs, "nvidia-mig-parted: 4 of 6 configs are not valid\n") {
		t.Errorf("exit code %d: %s", code, errs)
	}
	golden.Assert(t, out, "validate-mixed.golden")
	if code, out, errs := run(t, "validate", "-f", mixed, "-c", "some", "-o", "json"); code != 0 {
		t.Errorf("exit code %d: %s%s", code, out, errs)
	}
	fails(t, "1 of 1 configs are not valid", "validate", "-f", mixed, "-c", "some", "--board", "a30")
}

func TestAssertOfAConfigNeedsNoGPU(t *testing.T) {
	code, out, errs := run(t, "assert", "-f", defaults, "-c", "all-1g.6gb", "--valid-config")
	if code != 0 || out != "Selected MIG configuration is valid\n" || errs != "" {
		t.Errorf("exit code %d: %s%s", code, out, errs)
	}
	t.Setenv("MIG_PARTED_CONFIG_FILE", defaults)
	t.Setenv("MIG_PARTED_SELECTED_CONFIG", "all-1g.6gbb")
	t.Setenv("MIG_PARTED_VALID_CONFIG", "true")
	fails(t, `selected mig-config not present: "all-1g.6gbb"`, "assert")
	if code, _, _ := run(t, "assert", "--exit-codes", "detailed"); code != 2 {
		t.Errorf("exit code %d, want 2 for an error", code)
	}
	fails(t, `flag --exit-codes (environment variable MIG_PARTED_EXIT_CODES): invalid value "both": must be mig-parted or detailed`, "assert", "--exit-codes", "both")
}
