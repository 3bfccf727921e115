package gpuconfig_test

import (
	"bytes"
	stdcmp "cmp"
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/urfave/cli/v2"
	"gotest.tools/v3/assert"

	"outrigger.dev/pkg/agent"
	"outrigger.dev/pkg/agent/cluster"
	"outrigger.dev/pkg/agent/configfile"
	"outrigger.dev/pkg/agent/gpuconfig"
	"outrigger.dev/pkg/config"
	"outrigger.dev/pkg/hostfs"
)

var errLoaded = errors.New("loaded")

// options are all that have flags of package gpuconfig.
func options() []config.Option {
	return slices.Concat(config.DeviceOptions(), config.PluginOptions(), config.GFDOptions())
}

// newApp is an agent that has these options.
func newApp(s *gpuconfig.Settings, options []config.Option) agent.App {
	return agent.App{Name: "test-agent", Host: &s.Host, Flags: slices.Concat(s.HostFlags(), s.File.Flags(""), s.Flags("GFD_", options...))}
}

// load returns what an agent with the options loads, and the settings in effect.
func load(t *testing.T, options []config.Option, args ...string) (live *gpuconfig.Live, effective []slog.Attr, text string) {
	t.Helper()
	var s gpuconfig.Settings
	app := newApp(&s, options)
	app.New = func(c *cli.Context, log *slog.Logger) (_ *agent.Agent, err error) {
		if live, err = s.Load(c.Context, (*cluster.API)(nil), log); err != nil {
			return nil, err
		}
		effective = s.Effective(live.Config)
		return nil, errLoaded
	}
	var out, errs bytes.Buffer
	agent.Exec(t.Context(), app, append([]string{"test-agent"}, args...), &out, &errs)
	return live, effective, strings.TrimSuffix(strings.TrimPrefix(errs.String(), "test-agent: "), "\n")
}

// sample is a value of an option that is not the default.
type sample struct {
	text string
	// effective is the value in the first line of the log; text if empty.
	effective string
	want      func(*config.Config)
}

func samples() map[string]sample {
	return map[string]sample{
		"driver-root":                      {"/d", "", func(c *config.Config) { c.Driver.Root = "/d" }},
		"driver-root-ctr-path":             {"/c", "", func(c *config.Config) { c.Driver.CtrRoot = "/c" }},
		"dev-root":                         {"/v", "", func(c *config.Config) { c.Driver.DevRoot = "/v" }},
		"mig-strategy":                     {"mixed", "", func(c *config.Config) { c.MIGStrategy = "mixed" }},
		"device-discovery-strategy":        {"nvml", "", func(c *config.Config) { c.Discovery = "nvml" }},
		"fail-on-init-error":               {"true", "", func(c *config.Config) { c.FailOnInitError = true }},
		"shared-devices-allocation-policy": {"packed", "", func(c *config.Config) { c.Policy = "packed" }},
		"mps-root":                         {"/m", "", func(c *config.Config) { c.MPSRoot = "/m" }},
		"disable-healthchecks":             {"79", "", func(c *config.Config) { c.HealthChecks.Disable = "79" }},
		"enable-healthchecks":              {"13", "", func(c *config.Config) { c.HealthChecks.Enable = "13" }},
		"kubelet-socket":                   {"/k/s", "", func(c *config.Config) { c.KubeletSocket = "/k/s" }},
		"device-id-strategy":               {"index", "", func(c *config.Config) { c.IDStrategy = "index" }},
		"pass-device-specs":                {"true", "", func(c *config.Config) { c.PassDeviceSpecs = true }},
		"gds-enabled":                      {"true", "", func(c *config.Config) { c.GDS = true }},
		"mofed-enabled":                    {"true", "", func(c *config.Config) { c.MOFED = true }},
		"gdrcopy-enabled":                  {"true", "", func(c *config.Config) { c.GDRCopy = true }},
		"imex-channel-ids":                 {"0", "[0]", func(c *config.Config) { c.IMEX.Channels = []int{0} }},
		"imex-required":                    {"true", "", func(c *config.Config) { c.IMEX.Required = true }},
		"cdi-root":                         {"/r", "", func(c *config.Config) { c.CDIRoot = "/r" }},
		"nvidia-cdi-hook-path":             {"/h", "", func(c *config.Config) { c.HookPath = "/h" }},
		"cdi-annotation-prefix":            {"a/", "", func(c *config.Config) { c.CDIAnnotationPrefix = "a/" }},
		"cdi-feature-flags":                {"disable-ipc-discoverer", "[disable-ipc-discoverer]", func(c *config.Config) { c.CDIFeatureFlags = []string{"disable-ipc-discoverer"} }},
		"cdi-disable-hooks":                {"chmod,update-ldcache", "[chmod update-ldcache]", func(c *config.Config) { c.CDIDisableHooks = []string{"chmod", "update-ldcache"} }},
		"device-list-strategy": {"cdi-cri, volume-mounts", "[cdi-cri volume-mounts]", func(c *config.Config) {
			c.ListStrategies = []config.ListStrategy{"cdi-cri", "volume-mounts"}
		}},
		"default-device-list-strategy": {"cdi-cri", "", func(c *config.Config) {
			c.ListStrategies = []config.ListStrategy{"cdi-cri"}
		}},
		"resource-config": {"gpu:a:2", "", func(c *config.Config) {
			c.Policy = "spread"
			c.Sharing = config.Sharing{Strategy: config.SharingTimeSlicing, Shares: []config.Share{{Name: "nvidia.com/gpu", Rename: "nvidia.com/a", Replicas: 2}}}
		}},
		"output-file":          {"/f", "", func(c *config.Config) { c.GFD.OutputFile, c.GFD.Output = "/f", config.OutputFile }},
		"use-node-feature-api": {"true", "", func(c *config.Config) { c.GFD.Output = config.OutputNodeFeature }},
		"oneshot":              {"true", "", func(c *config.Config) { c.GFD.OneShot = true }},
		"no-timestamp":         {"true", "", func(c *config.Config) { c.GFD.NoTimestamp = true }},
		"sleep-interval":       {"90s", "1m30s", func(c *config.Config) { c.GFD.SleepInterval = 90 * time.Second }},
		"machine-type-file":    {"/t", "", func(c *config.Config) { c.GFD.MachineTypeFile = "/t" }},
	}
}

// inFile writes a config file that sets a key to a text.
func inFile(t *testing.T, key, text string) string {
	t.Helper()
	if !slices.Contains([]string{"true", "false"}, text) {
		text = `"` + text + `"`
	}
	path := filepath.Join(t.TempDir(), "c.yaml")
	parts := strings.Split(key, ".")
	put(t, path, strings.Join(parts, ": {")+": "+text+strings.Repeat("}", len(parts)-1)+"\n")
	return path
}

func put(t *testing.T, path, content string) {
	t.Helper()
	assert.NilError(t, hostfs.WriteFile(path, []byte(content), 0o644))
}

// TestEveryOption reaches each row of the table by its flag, each of its variables
// and its key in the file.
func TestEveryOption(t *testing.T) {
	all := samples()
	for _, o := range config.Options() {
		s, ok := all[o.Name]
		if !ok {
			t.Errorf("option %s has no sample", o.Name)
			continue
		}
		want := config.Default()
		s.want(&want)
		check := func(t *testing.T, args ...string) {
			t.Helper()
			live, effective, text := load(t, options(), args...)
			if text != errLoaded.Error() {
				t.Fatal(text)
			}
			if diff := cmp.Diff(want, live.Config); diff != "" {
				t.Errorf("config (-want +got):\n%s", diff)
			}
			i := slices.IndexFunc(effective, func(a slog.Attr) bool { return a.Key == agent.SettingKey(o.Name) })
			if i < 0 && o.Values(want) != nil || i >= 0 && effective[i].Value.String() != stdcmp.Or(s.effective, s.text) {
				t.Errorf("effective settings %v, want %s in %s", effective, s.text, o.Name)
			}
		}
		t.Run(o.Name, func(t *testing.T) { check(t, "--"+o.Name+"="+s.text) })
		flags := newApp(&gpuconfig.Settings{}, options()).Flags
		i := slices.IndexFunc(flags, func(f cli.Flag) bool { return f.Names()[0] == o.Name })
		for _, env := range flags[i].(cli.DocGenerationFlag).GetEnvVars() {
			t.Run(env, func(t *testing.T) {
				t.Setenv(env, s.text)
				check(t)
			})
		}
		if o.Key != "" {
			t.Run(o.Key, func(t *testing.T) { check(t, "--config-file", inFile(t, o.Key, s.text)) })
		}
		if got := config.NeedsRestart(config.Default(), want); slices.Contains(got, o.Name) != o.Restart {
			t.Errorf("%s: NeedsRestart() = %v, want it in: %t", o.Name, got, o.Restart)
		}
	}
}

// Only options that the agent has flags for make it restart or are in its log.
func TestOptionsOfOthers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.yaml")
	put(t, path, "flags: {gfd: {oneshot: false}}\n")
	live, effective, text := load(t, config.DeviceOptions(), "--config-file", path)
	if text != errLoaded.Error() {
		t.Fatal(text)
	}
	for _, a := range effective {
		if a.Key == "oneshot" || a.Key == "kubelet_socket" {
			t.Errorf("%s is in the effective settings %v", a.Key, effective)
		}
	}
	got := make(chan config.Config, 1)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	done := make(chan error, 1)
	go func() {
		done <- live.Run(ctx, configfile.Follower[config.Config]{
			Configure: func(c config.Config) { got <- c },
			Reject:    func(err error) { t.Errorf("rejected: %v", err) },
		})
	}()
	put(t, path, "flags: {gfd: {oneshot: true}}\n")
	live.Reload()
	select {
	case c := <-got:
		if !c.GFD.OneShot {
			t.Errorf("config %+v, want the changed one", c)
		}
	case err := <-done:
		t.Fatalf("Run() = %v, want that it goes on", err)
	}
	put(t, path, "flags: {nvidiaDriverRoot: /elsewhere}\n")
	live.Reload()
	assert.ErrorContains(t, <-done, "driver-root cannot change while the agent runs")
}

// What is wrong in the file is no usage error.
func TestExitCodes(t *testing.T) {
	bad := filepath.Join(t.TempDir(), "bad.yaml")
	put(t, bad, "flags:\n  migStrategy: some\n")
	for name, tc := range map[string]struct {
		args []string
		want string
		code int
	}{
		"a file": {[]string{"--config-file", bad}, bad + ":2: flags.migStrategy: invalid value", 1},
		"a flag": {[]string{"--mig-strategy=some"}, "flag --mig-strategy (environment variable GFD_MIG_STRATEGY): invalid value", 2},
	} {
		t.Run(name, func(t *testing.T) {
			var s gpuconfig.Settings
			app := newApp(&s, options())
			app.New = func(c *cli.Context, log *slog.Logger) (*agent.Agent, error) {
				_, err := s.Load(c.Context, (*cluster.API)(nil), log)
				return nil, err
			}
			var out, errs bytes.Buffer
			code := agent.Exec(t.Context(), app, append([]string{"x"}, tc.args...), &out, &errs)
			if code != tc.code || !strings.Contains(errs.String(), tc.want) {
				t.Errorf("exit code %d, %q, want %d with %q", code, errs.String(), tc.code, tc.want)
			}
		})
	}
}
