package app

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"
	"gotest.tools/v3/assert"

	"outrigger.dev/pkg/agent"
)

// settingsOf is what the app reads from a command line; all errors go to text.
func settingsOf(t *testing.T, args ...string) (s *settings, code int, text string) {
	t.Helper()
	s = &settings{}
	a := newApp(s)
	a.New = func(c *cli.Context, log *slog.Logger) (*agent.Agent, error) {
		if err := s.load(c.Context, nil, log); err != nil {
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
	assert.NilError(t, os.WriteFile(path, []byte(content), 0o600))
	return path
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
	if s.live.Config.IDStrategy != "uuid" || s.live.Config.MIGStrategy != "single" {
		t.Errorf("flag and variable do not go before the file: %+v", s.live.Config)
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
	assert.NilError(t, os.Mkdir(filepath.Join(dir, "..2026"), 0o700))
	t.Setenv("CONFIG_FILE_SRCDIR", dir)
	t.Setenv("FALLBACK_STRATEGIES", "named,single")
	s, _, text := settingsOf(t)
	if s.live.Config.MIGStrategy != "mixed" {
		t.Errorf("%s: a node without label has %q, want what the file default says", text, s.live.Config.MIGStrategy)
	}
	s, _, text = settingsOf(t, "--default-config=shared")
	if s.live.Config.MIGStrategy != "single" {
		t.Errorf("%s: a node without label has %q, want what the default says", text, s.live.Config.MIGStrategy)
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
		"a file that is not there": {[]string{"--config-file", dir + "/none"}, 1, "flag --config-file (environment variable CONFIG_FILE): open " + dir + "/none: no such file or directory: create it, or use another path; in a pod, mount it"},
		"a folder for a file":      {[]string{"--config-file", dir}, 1, "flag --config-file (environment variable CONFIG_FILE): open " + dir + ": it is a folder, not a regular file: use another path, or move it away"},
		"a file too large":         {[]string{"--config-file", large}, 1, "flag --config-file (environment variable CONFIG_FILE): read " + large + ": it is larger than 1 MiB"},
		"a bad file":               {[]string{"--config-file", bad}, 1, bad + `:2: flags.migStrategy: invalid value "some": must be none, single or mixed`},
		"a bad flag":               {[]string{"--mig-strategy", "some"}, 2, `flag --mig-strategy (environment variable MIG_STRATEGY): invalid value "some": must be none, single or mixed`},
		"a number that is none":    {[]string{"--imex-channel-ids", "0,x"}, 2, `flag --imex-channel-ids (environment variable IMEX_CHANNEL_IDS): invalid value "x": must be empty or 0, the only channel that containers of a node can share`},
		"two ways to share": {
			[]string{"--config-file", sharing, "--resource-config", "gpu:a:2"},
			2,
			sharing + ":1: sharing.timeSlicing: flag --resource-config is set too, and both configure sharing: remove one of them",
		},
		"two places": {[]string{"--config-file", bad, "--config-dir", dir}, 2, "flags --config-file and --config-dir are both set: remove one of them"},
		"a folder that is not there": {
			[]string{"--config-dir", dir + "/none"}, 1, "flag --config-dir (environment variable CONFIG_DIR): open " + dir + "/none: no such file or directory: create it, or use another path; in a pod, mount it",
		},
		"a fallback that is none": {
			[]string{"--fallback-strategies", "first"}, 2, `flag --fallback-strategies (environment variable FALLBACK_STRATEGIES): invalid value "first": must be named, single or empty`,
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
