package configfile_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/urfave/cli/v2"
	"gotest.tools/v3/assert"

	"outrigger.dev/pkg/agent"
	"outrigger.dev/pkg/agent/configfile"
	"outrigger.dev/pkg/hostfs"
)

// level is a config: a file holds "level N" and perhaps "root PATH".
type level struct {
	N    int
	Root string
}

func parse(name string, data []byte) (level, error) {
	var l level
	for line := range strings.Lines(string(data)) {
		key, text, _ := strings.Cut(strings.TrimSpace(line), " ")
		var err error
		switch key {
		case "level":
			l.N, err = strconv.Atoi(text)
		case "root":
			l.Root = text
		default:
			err = fmt.Errorf("unknown key %q", key)
		}
		if err != nil {
			return level{}, fmt.Errorf("%s: %w", name, err)
		}
	}
	return l, nil
}

func needsRestart(old, changed level) []string {
	if old.Root != changed.Root {
		return []string{"root"}
	}
	return nil
}

// update is what a follower got.
type update struct {
	config level
	err    error
}

// updates collects what a follower gets.
type updates chan update

func (u updates) next(t *testing.T) update {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	select {
	case v := <-u:
		return v
	case <-ctx.Done():
		t.Fatal("the follower got nothing")
		return update{}
	}
}

func (u updates) level(t *testing.T) int {
	t.Helper()
	v := u.next(t)
	assert.NilError(t, v.err, "rejected")
	return v.config.N
}

var errLoaded = errors.New("loaded")

// load returns the config that a command line selects, or the error of the agent.
func load(t *testing.T, labels configfile.Labels, args ...string) (live *configfile.Live[level], text string) {
	t.Helper()
	var file configfile.File
	var runRoot string
	app := agent.App{
		Name: "test-agent", Flags: append(file.Flags(""), &cli.PathFlag{Name: "run-root", EnvVars: []string{"RUN_ROOT"}, Destination: &runRoot}),
		New: func(c *cli.Context, log *slog.Logger) (_ *agent.Agent, err error) {
			live, err = configfile.Load(c.Context, file, configfile.Spec[level]{
				Parse: parse, NeedsRestart: needsRestart, Labels: labels, Patience: time.Millisecond, RunRoot: runRoot, Log: log,
			})
			return nil, errors.Join(err, errLoaded)
		},
	}
	var out, errOut bytes.Buffer
	agent.Exec(t.Context(), app, append([]string{"test-agent"}, args...), &out, &errOut)
	return live, errOut.String()
}

// follow runs what follows the config of a command line.
func follow(t *testing.T, labels configfile.Labels, args ...string) (updates, <-chan error) {
	t.Helper()
	live, text := load(t, labels, args...)
	if live == nil {
		t.Fatal(text)
	}
	got := make(updates, 8)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		done <- live.Run(ctx, configfile.Follower[level]{
			Configure: func(l level) { got <- update{config: l} },
			Reject:    func(err error) { got <- update{err: err} },
		})
	}()
	t.Cleanup(func() { cancel(); <-stopped })
	return got, done
}

// reason returns the class of a rejection on /metrics.
func reason(t *testing.T, err error) string {
	t.Helper()
	m := configfile.NewMetrics("x")
	m.Configured(err)
	reg := prometheus.NewRegistry()
	reg.MustRegister(m)
	families, gatherErr := reg.Gather()
	assert.NilError(t, gatherErr)
	for _, f := range families {
		if f.GetName() == "x_config_refused" {
			return f.GetMetric()[0].GetLabel()[0].GetValue()
		}
	}
	return ""
}

func put(t *testing.T, path, content string) {
	t.Helper()
	assert.NilError(t, hostfs.WriteFile(path, []byte(content), 0o644))
}

func TestFollowsTheFileAndKeepsTheLastGoodConfig(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config")
	put(t, path, "level 2\nroot /a")
	got, done := follow(t, nil, "--config-file", path)
	put(t, path, "level 3\nroot /a")
	if n := got.level(t); n != 3 {
		t.Errorf("level %d, want 3", n)
	}
	put(t, path, "level many")
	if v := got.next(t); v.err == nil || !strings.Contains(v.err.Error(), path) || !strings.Contains(v.err.Error(), "many") {
		t.Errorf("a bad file: %v", v.err)
	} else if got := reason(t, v.err); got != "invalid" {
		t.Errorf("reason %q, want invalid", got)
	}
	// Back to the config in effect: it is no longer rejected.
	put(t, path, "level 3\nroot /a")
	if n := got.level(t); n != 3 {
		t.Errorf("level %d, want 3", n)
	}
	put(t, path, "level 3\nroot /b")
	assert.ErrorContains(t, <-done, "root cannot change while the agent runs")
}

func TestReload(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "config")
	put(t, path, "level 2")
	live, text := load(t, nil, "--config-file", path)
	if live == nil {
		t.Fatal(text)
	}
	// A change before Run has a watch is seen with Reload.
	put(t, path, "level 3")
	live.Reload()
	ctx, cancel := context.WithCancel(t.Context())
	assert.NilError(t, live.Run(ctx, configfile.Follower[level]{Configure: func(l level) {
		if l.N != 3 {
			t.Errorf("level %d, want 3", l.N)
		}
		cancel()
	}}))
}

// A file that an editor has truncated is not taken for a config. A part of it may be read only if the machine delays the
// editor for longer than the pause, and the whole file is read after it.
func TestAFileThatIsEditedInPlace(t *testing.T) {
	partial := 0
	path := filepath.Join(t.TempDir(), "config")
	put(t, path, "level 2")
	got, _ := follow(t, nil, "--config-file", path)
	for want := 3; want < 9; want++ {
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_TRUNC, 0)
		assert.NilError(t, err)
		time.Sleep(20 * time.Millisecond) //nolint:forbidigo // the editor needs time to write
		for _, part := range []string{"level", " ", strconv.Itoa(want)} {
			if _, err := f.WriteString(part); err != nil {
				t.Fatal(err)
			}
		}
		assert.NilError(t, f.Close())
		for got.next(t).config.N != want {
			partial++
		}
	}
	if partial > 3 {
		t.Errorf("%d parts of files were read in 6 edits", partial)
	}
}

func TestBothFlags(t *testing.T) {
	live, text := load(t, nil, "--config-dir", "/d", "--config-file", "/f")
	if live != nil || !strings.Contains(text, "flags --config-file and --config-dir are both set") {
		t.Errorf("config %v: %s", live, text)
	}
}
