package app

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/urfave/cli/v2"

	"outrigger.dev/pkg/agent"
	"outrigger.dev/pkg/config"
)

// settingsOf is what the app reads from a command line; all errors go to text.
func settingsOf(t *testing.T, args ...string) (s settings, code int, text string) {
	t.Helper()
	a := App()
	a.New = func(c *cli.Context, log *slog.Logger) (*agent.Agent, error) {
		var err error
		if s, err = read(c, nil, log); err != nil {
			return nil, err
		}
		return nil, errors.New("read")
	}
	var out, errOut bytes.Buffer
	code = agent.Exec(t.Context(), a, append([]string{"device-plugin", "--listen="}, args...), &out, &errOut)
	return s, code, strings.TrimSuffix(strings.TrimPrefix(errOut.String(), "device-plugin: "), "\n")
}

func write(t *testing.T, dir, name, content string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// flagCase is a flag with its variables, and what it sets.
type flagCase struct {
	// value differs from the default.
	value string
	envs  []string
	want  func(*config.Config)
}

func everyFlag() map[string]flagCase {
	return map[string]flagCase{
		"mig-strategy":                     {"mixed", []string{"MIG_STRATEGY"}, func(c *config.Config) { c.MIGStrategy = "mixed" }},
		"fail-on-init-error":               {"true", []string{"FAIL_ON_INIT_ERROR"}, func(c *config.Config) { c.FailOnInitError = true }},
		"driver-root":                      {"/d", []string{"NVIDIA_DRIVER_ROOT"}, func(c *config.Config) { c.Driver.Root = "/d" }},
		"driver-root-ctr-path":             {"/c", []string{"DRIVER_ROOT_CTR_PATH", "CONTAINER_DRIVER_ROOT"}, func(c *config.Config) { c.Driver.CtrRoot = "/c" }},
		"dev-root":                         {"/v", []string{"NVIDIA_DEV_ROOT"}, func(c *config.Config) { c.Driver.DevRoot = "/v" }},
		"pass-device-specs":                {"true", []string{"PASS_DEVICE_SPECS"}, func(c *config.Config) { c.PassDeviceSpecs = true }},
		"device-list-strategy":             {"cdi-cri, volume-mounts", []string{"DEVICE_LIST_STRATEGY"}, func(c *config.Config) { c.ListStrategies = []config.ListStrategy{"cdi-cri", "volume-mounts"} }},
		"device-id-strategy":               {"index", []string{"DEVICE_ID_STRATEGY"}, func(c *config.Config) { c.IDStrategy = "index" }},
		"gdrcopy-enabled":                  {"true", []string{"GDRCOPY_ENABLED"}, func(c *config.Config) { c.GDRCopy = true }},
		"gds-enabled":                      {"true", []string{"GDS_ENABLED"}, func(c *config.Config) { c.GDS = true }},
		"mofed-enabled":                    {"true", []string{"MOFED_ENABLED"}, func(c *config.Config) { c.MOFED = true }},
		"cdi-annotation-prefix":            {"a/", []string{"CDI_ANNOTATION_PREFIX"}, func(c *config.Config) { c.CDIAnnotationPrefix = "a/" }},
		"nvidia-cdi-hook-path":             {"/h", []string{"NVIDIA_CDI_HOOK_PATH", "NVIDIA_CTK_PATH"}, func(c *config.Config) { c.HookPath = "/h" }},
		"mps-root":                         {"/m", []string{"MPS_ROOT"}, func(c *config.Config) { c.MPSRoot = "/m" }},
		"shared-devices-allocation-policy": {"packed", []string{"SHARED_DEVICES_ALLOCATION_POLICY"}, func(c *config.Config) { c.Policy = "packed" }},
		"device-discovery-strategy":        {"nvml", []string{"DEVICE_DISCOVERY_STRATEGY"}, func(c *config.Config) { c.Discovery = "nvml" }},
		"imex-channel-ids":                 {"0", []string{"IMEX_CHANNEL_IDS"}, func(c *config.Config) { c.IMEX.Channels = []int{0} }},
		"imex-required":                    {"true", []string{"IMEX_REQUIRED"}, func(c *config.Config) { c.IMEX.Required = true }},
		"kubelet-socket":                   {"/k/s", []string{"KUBELET_SOCKET"}, func(c *config.Config) { c.KubeletSocket = "/k/s" }},
		"cdi-root":                         {"/r", []string{"CDI_ROOT"}, func(c *config.Config) { c.CDIRoot = "/r" }},
		"cdi-feature-flags":                {"disable-ipc-discoverer", []string{"CDI_FEATURE_FLAGS"}, func(c *config.Config) { c.CDIFeatureFlags = []string{"disable-ipc-discoverer"} }},
		"cdi-disable-hooks":                {"chmod,update-ldcache", []string{"CDI_DISABLE_HOOKS"}, func(c *config.Config) { c.CDIDisableHooks = []string{"chmod", "update-ldcache"} }},
		"disable-healthchecks":             {"79", []string{"DP_DISABLE_HEALTHCHECKS"}, func(c *config.Config) { c.HealthChecks.Disable = "79" }},
		"enable-healthchecks":              {"13", []string{"DP_ENABLE_HEALTHCHECKS"}, func(c *config.Config) { c.HealthChecks.Enable = "13" }},
		"resource-config": {"gpu:a:2", []string{"NVIDIA_DRIVER_RESOURCE_CONFIG", "RESOURCE_CONFIG"}, func(c *config.Config) {
			c.Policy = "spread"
			c.Sharing = config.Sharing{Strategy: config.SharingTimeSlicing, Shares: []config.Share{{Name: "nvidia.com/gpu", Rename: "nvidia.com/a", Replicas: 2}}}
		}},
	}
}

func TestEveryFlag(t *testing.T) {
	for flag, tc := range everyFlag() {
		want := config.Default()
		tc.want(&want)
		t.Run(flag, func(t *testing.T) {
			s, _, text := settingsOf(t, "--"+flag+"="+tc.value)
			if diff := cmp.Diff(want, s.Config); diff != "" || text != "read" {
				t.Errorf("%s; config (-want +got):\n%s", text, diff)
			}
		})
		for _, env := range tc.envs {
			t.Run(env, func(t *testing.T) {
				t.Setenv(env, tc.value)
				s, _, text := settingsOf(t)
				if diff := cmp.Diff(want, s.Config); diff != "" || text != "read" {
					t.Errorf("%s; config (-want +got):\n%s", text, diff)
				}
			})
		}
	}
}

// A flag that stands in the table of what can be set must be in the test too.
func TestEveryFlagIsTested(t *testing.T) {
	// Where the config is, and the node, is no part of it.
	other := []string{
		"config-file", "config-dir", "default-config", "fallback-strategies", "node-label", "node-name", "report-events", "health-quiet-window",
		"gpu-source", "proc-root", "sys-root", "run-root",
	}
	var got, want []string
	for _, f := range flags() {
		got = append(got, f.Names()[0])
	}
	want = append(want, other...)
	for flag := range everyFlag() {
		want = append(want, flag)
	}
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("flags (-tested +there):\n%s", diff)
	}
}

func TestConfigFile(t *testing.T) {
	dir := t.TempDir()
	file := write(t, dir, "c.yaml", "flags: {migStrategy: mixed, nvidiaDriverRoot: /file, plugin: {deviceIDStrategy: index, containerDriverRoot: /ctr}}")

	t.Setenv("MIG_STRATEGY", "single")
	t.Setenv("CONFIG_FILE", file)
	s, _, text := settingsOf(t, "--device-id-strategy", "uuid")
	if text != "read" {
		t.Fatal(text)
	}
	if s.Config.IDStrategy != "uuid" || s.Config.MIGStrategy != "single" {
		t.Errorf("flag and variable do not go before the file: %+v", s.Config)
	}
	if s.driver.Root.HostPath() != "/file" || s.driver.Root.CtrPath() != "/ctr" {
		t.Errorf("the driver roots of the file are not those of the host: %+v", s.driver.Root)
	}
}

func TestDriverRootIsWhereTheAgentSeesIt(t *testing.T) {
	file := write(t, t.TempDir(), "c.yaml", "flags: {nvidiaDriverRoot: /file}")
	s, _, _ := settingsOf(t, "--config-file", file)
	if s.driver.Root.CtrPath() != "/file" {
		t.Errorf("without a folder for it, the agent sees the driver root at %s, want /file", s.driver.Root.CtrPath())
	}
}

func TestConfigDir(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "default", "flags: {migStrategy: mixed}")
	write(t, dir, "shared", "flags: {migStrategy: single}")
	if err := os.Mkdir(filepath.Join(dir, "..2026"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("CONFIG_FILE_SRCDIR", dir)
	t.Setenv("FALLBACK_STRATEGIES", "named,single")
	s, _, text := settingsOf(t)
	if s.Config.MIGStrategy != "mixed" {
		t.Errorf("%s: a node without label has %q, want what the file default says", text, s.Config.MIGStrategy)
	}
	s, _, text = settingsOf(t, "--default-config=shared")
	if s.Config.MIGStrategy != "single" {
		t.Errorf("%s: a node without label has %q, want what the default says", text, s.Config.MIGStrategy)
	}
}

func TestBadSettings(t *testing.T) {
	dir := t.TempDir()
	bad := write(t, dir, "bad.yaml", "flags:\n  migStrategy: some\n")
	sharing := write(t, dir, "sharing.yaml", "sharing: {timeSlicing: {resources: [{name: gpu, replicas: 2}]}}")
	large := write(t, dir, "large.yaml", strings.Repeat("#\n", 1<<19+1))
	for name, tc := range map[string]struct {
		args []string
		code int
		want string
	}{
		"a file that is not there": {[]string{"--config-file", dir + "/none"}, 1, "read config file: open " + dir + "/none: no such file or directory"},
		"a folder for a file":      {[]string{"--config-file", dir}, 1, "read config file: read " + dir + ": is a directory"},
		"a file too large":         {[]string{"--config-file", large}, 1, "read config file " + large + ": it is larger than 1 MiB"},
		"a bad file":               {[]string{"--config-file", bad}, 1, bad + `:2: flags.migStrategy: invalid value "some": must be none, single or mixed`},
		"a bad flag":               {[]string{"--mig-strategy", "some"}, 2, `flag --mig-strategy: invalid value "some": must be none, single or mixed`},
		"a number that is none":    {[]string{"--imex-channel-ids", "0,x"}, 2, `flag --imex-channel-ids: invalid value "0,x": must be integers, joined by commas`},
		"two ways to share": {
			[]string{"--config-file", sharing, "--resource-config", "gpu:a:2"},
			2,
			sharing + ":1: sharing.timeSlicing: flag --resource-config is set too, and both say how GPUs are shared: remove one of them",
		},
		"two places": {[]string{"--config-file", bad, "--config-dir", dir}, 2, "flags --config-file and --config-dir are both set: one file is in force, remove one of them"},
		"a folder that is not there": {
			[]string{"--config-dir", dir + "/none"}, 1, "read config folder: open " + dir + "/none: no such file or directory",
		},
		"a fallback that is none": {
			[]string{"--fallback-strategies", "first"}, 2, `flag --fallback-strategies: invalid value "first": must be named, single or empty`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, code, text := settingsOf(t, tc.args...)
			if text != tc.want || code != tc.code {
				t.Errorf("exit code %d, %q, want %d, %q", code, text, tc.code, tc.want)
			}
		})
	}
}
