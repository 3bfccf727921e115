package gpuconfig_test

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/urfave/cli/v2"
	"gotest.tools/v3/assert"

	"outrigger.dev/pkg/agent"
	"outrigger.dev/pkg/agent/agenttest"
	"outrigger.dev/pkg/agent/cluster"
	"outrigger.dev/pkg/agent/configfile"
	"outrigger.dev/pkg/agent/gpuconfig"
	"outrigger.dev/pkg/config"
	"outrigger.dev/pkg/contract"
)

// patience bounds waits for what must happen; it is not a delay.
const patience = 5 * time.Minute

// shared is a config of the device plugin: each GPU is advertised n times.
func shared(n int) config.Config {
	c := config.Default()
	c.MIGStrategy = config.MIGStrategyMixed
	c.Sharing = config.Sharing{Strategy: config.SharingTimeSlicing, Shares: []config.Share{{
		Name: "nvidia.com/gpu", Rename: "nvidia.com/gpu", Replicas: n, Devices: config.Selection{Refs: []config.Ref{"0", "1"}},
	}}}
	c.Resources.GPUs = []config.Pattern{{Pattern: "NVIDIA A100*", Name: "nvidia.com/a100"}}
	c.Filter.Exclude = []string{"3"}
	return c
}

// adopt returns the config of an agent with these flags.
func adopt(t *testing.T, dir contract.Dir, args ...string) *gpuconfig.Adopted {
	t.Helper()
	var adopted *gpuconfig.Adopted
	var s gpuconfig.Settings
	app := newApp(&s, options())
	app.New = func(c *cli.Context, log *slog.Logger) (*agent.Agent, error) {
		live, err := s.Load(c.Context, (*cluster.API)(nil), log)
		if err == nil {
			adopted, err = s.Adopt(live, dir, log), errLoaded
		}
		return nil, err
	}
	var out, errs bytes.Buffer
	agent.Exec(t.Context(), app, append([]string{"x"}, args...), &out, &errs)
	if adopted == nil {
		t.Fatal(errs.String())
	}
	return adopted
}

// publish starts a Publisher, and returns what changes its config.
func publish(t *testing.T, dir contract.Dir, first config.Config) (configure func(config.Config)) {
	t.Helper()
	p := gpuconfig.NewPublisher(dir, "device-plugin", first, slog.New(slog.DiscardHandler))
	agenttest.Run(t, p.Run)
	return p.Follow(configfile.Follower[config.Config]{Configure: func(config.Config) {}}).Configure
}

func published(dir contract.Dir) bool { return dir.Read(contract.PluginConfig).State == contract.Valid }

func TestAnAgentAdoptsTheConfigOfThePlugin(t *testing.T) {
	dir := contract.Dir{Root: t.TempDir()}
	if diff := cmp.Diff(config.Default(), adopt(t, dir).Config); diff != "" {
		t.Errorf("without a plugin, the config is (-want +got):\n%s", diff)
	}
	configure := publish(t, dir, shared(4))
	agenttest.Poll(t, "the plugin publishes its config", func() bool { return published(dir) })
	a := adopt(t, dir, "--sleep-interval=90s")
	want := shared(4)
	want.GFD.SleepInterval = 90 * time.Second
	if diff := cmp.Diff(want, a.Config); diff != "" {
		t.Errorf("config (-want +got):\n%s", diff)
	}

	got := make(chan config.Config, 1)
	agenttest.Run(t, func(ctx context.Context) error {
		return a.Run(ctx, configfile.Follower[config.Config]{Configure: func(c config.Config) { got <- c }})
	})
	configure(shared(8))
	want.Sharing = shared(8).Sharing
	select {
	case c := <-got:
		if diff := cmp.Diff(want, c); diff != "" {
			t.Errorf("changed config (-want +got):\n%s", diff)
		}
	case <-time.After(patience):
		t.Fatal("the agent does not follow the config of the plugin")
	}
}

func TestAConfigOfItsOwnTakesPrecedence(t *testing.T) {
	dir := contract.Dir{Root: t.TempDir()}
	publish(t, dir, shared(4))
	agenttest.Poll(t, "the plugin publishes its config", func() bool { return published(dir) })
	file := filepath.Join(t.TempDir(), "c.yaml")
	put(t, file, "version: v1\n")
	for name, args := range map[string][]string{
		"a file":             {"--config-file", file},
		"a MIG strategy":     {"--mig-strategy=none"},
		"an empty list":      {"--resource-config="},
		"a folder of config": {"--config-dir", filepath.Dir(file), "--fallback-strategies=single"},
	} {
		if got := adopt(t, dir, args...).Config; got.Sharing.Strategy != config.SharingNone || got.MIGStrategy != config.MIGStrategyNone {
			t.Errorf("%s: the agent uses the config of the plugin: %+v", name, got)
		}
	}
}

func TestThePublishedConfigHeals(t *testing.T) {
	dir := contract.Dir{Root: t.TempDir()}
	publish(t, dir, shared(4))
	path := dir.Path(contract.PluginConfig)
	for name, damage := range map[string]func() error{
		"removed":   func() error { return os.Remove(path) },
		"truncated": func() error { return os.WriteFile(path, nil, 0o600) },
		"replaced": func() error {
			return dir.Write(contract.PluginConfig, contract.Record{Writer: "somebody", Values: map[string]string{"CONFIG": "{}"}})
		},
	} {
		whole := func() bool { return published(dir) && cmp.Equal(adopt(t, dir).Config, shared(4)) }
		agenttest.Poll(t, "the plugin publishes its config", whole)
		assert.NilError(t, damage())
		agenttest.Poll(t, "a file that is "+name+" heals", whole)
	}
}

// TestTheLastConfigStays has a plugin that ends: an update must change no labels. An agent
// that starts afterwards does not know whether there still is a plugin.
func TestTheLastConfigStays(t *testing.T) {
	dir := contract.Dir{Root: t.TempDir()}
	end := agenttest.Run(t, gpuconfig.NewPublisher(dir, "device-plugin", shared(4), slog.New(slog.DiscardHandler)).Run)
	agenttest.Poll(t, "the plugin publishes its config", func() bool { return published(dir) })
	a := adopt(t, dir)
	got := make(chan config.Config, 2)
	agenttest.Run(t, func(ctx context.Context) error {
		return a.Run(ctx, configfile.Follower[config.Config]{Configure: func(c config.Config) { got <- c }})
	})
	end()
	if state := dir.Read(contract.PluginConfig).State; state != contract.Missing {
		t.Errorf("after the end the published config is %s", state)
	}
	if diff := cmp.Diff(config.Default(), adopt(t, dir).Config); diff != "" {
		t.Errorf("an agent that starts without a plugin has the config (-want +got):\n%s", diff)
	}
	publish(t, dir, shared(8))
	if c := <-got; c.Sharing.Shares[0].Replicas != 8 {
		t.Errorf("between two plugins the agent used %+v", c.Sharing)
	}
}

func TestAFileThatIsNoConfigIsIgnored(t *testing.T) {
	dir := contract.Dir{Root: t.TempDir()}
	for name, text := range map[string]string{"no JSON": "{", "nothing": "", "another type": `{"Sharing":[]}`} {
		assert.NilError(t, dir.Write(contract.PluginConfig, contract.Record{Writer: "device-plugin", Values: map[string]string{"CONFIG": text}}))
		if diff := cmp.Diff(config.Default(), adopt(t, dir).Config); diff != "" {
			t.Errorf("%s: config (-want +got):\n%s", name, diff)
		}
	}
}
