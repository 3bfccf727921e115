package configfile_test

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"

	"outrigger.dev/pkg/agent/agenttest"
	"outrigger.dev/pkg/agent/cluster"
	"outrigger.dev/pkg/kube/apitest"
)

// key is the label that selects a file.
const key = "example.com/config"

func labelsOf(t *testing.T, api *apitest.API) *cluster.API {
	t.Helper()
	return &cluster.API{Client: apitest.Client(t, api.Config, api.Name, "test-agent")}
}

func TestTheLabelSelectsTheFile(t *testing.T) {
	dir := t.TempDir()
	put(t, filepath.Join(dir, "default"), "level 2")
	put(t, filepath.Join(dir, "many"), "level 10")
	api := apitest.New(t, nil)
	labels := labelsOf(t, api)
	flags := []string{"--config-dir", dir, "--node-label", key, "--fallback-strategies", "named"}
	got, _ := follow(t, labels, flags...)
	api.SetLabels(map[string]string{key: "many"})
	if n := got.level(t); n != 10 {
		t.Errorf("level %d, want 10", n)
	}
	api.SetLabels(map[string]string{key: "none-such"})
	if v := got.next(t); v.err == nil || !strings.Contains(v.err.Error(), "none-such") {
		t.Errorf("a label without a file: %v", v.err)
	} else if got := reason(t, v.err); got != "unreadable" {
		t.Errorf("reason %q, want unreadable", got)
	}
	// The file appears: the label need not change again.
	put(t, filepath.Join(dir, "none-such"), "level 7")
	if n := got.level(t); n != 7 {
		t.Errorf("level %d, want 7", n)
	}
	api.SetLabels(nil)
	if n := got.level(t); n != 2 {
		t.Errorf("level %d, want 2", n)
	}
	// A start waits for the label.
	api.SetLabels(map[string]string{key: "many"})
	if live, text := load(t, labels, flags...); live == nil || live.Config.N != 10 {
		t.Errorf("at startup %v, want level 10: %s", live, text)
	}
}

// An agent outside of a cluster has a node without labels.
func TestWithoutAnAPIServer(t *testing.T) {
	dir := t.TempDir()
	put(t, filepath.Join(dir, "only"), "level 2")
	live, text := load(t, (*cluster.API)(nil), "--config-dir", dir, "--fallback-strategies", "single")
	if live == nil || live.Config.N != 2 {
		t.Errorf("config %v, want level 2: %s", live, text)
	}
	live, text = load(t, (*cluster.API)(nil), "--config-dir", dir)
	if live != nil || !strings.Contains(text, "the node has no label that selects a config") {
		t.Errorf("config %v, want none: %s", live, text)
	}
}

// selected returns the flags for a folder of configs of which the label selects one.
func selected(t *testing.T, runRoot string) []string {
	t.Helper()
	dir := t.TempDir()
	put(t, filepath.Join(dir, "default"), "level 2")
	put(t, filepath.Join(dir, "many"), "level 10")
	return []string{"--config-dir", dir, "--node-label", key, "--fallback-strategies", "named", "--run-root", runRoot}
}

func TestAStartWithoutTheAPIServerUsesTheLastKnownLabel(t *testing.T) {
	t.Parallel()
	runRoot := t.TempDir()
	api := apitest.New(t, map[string]string{key: "many"})
	labels, flags := labelsOf(t, api), selected(t, runRoot)
	start := func(away bool, want int) {
		t.Helper()
		if live, text := load(t, labels, flags...); live == nil || live.Config.N != want {
			t.Errorf("config %v, want level %d: %s", live, want, text)
		} else if used := strings.Contains(text, "using its last known value"); used != away {
			t.Errorf("the last known label is used: %t, want %t", used, away)
		}
	}
	assert.NilError(t, os.WriteFile(filepath.Join(runRoot, "node-labels"), nil, 0o600))
	// What cannot be kept does not stop the agent.
	start(false, 10)
	assert.NilError(t, os.Remove(filepath.Join(runRoot, "node-labels")))
	start(false, 10)
	api.Unavailable(math.MaxInt)
	start(true, 10)
	// The label changes while an agent runs.
	got, _ := follow(t, labels, flags...)
	api.SetLabels(nil)
	api.Unavailable(0)
	if n := got.level(t); n != 2 {
		t.Errorf("level %d, want 2", n)
	}
	api.Unavailable(math.MaxInt)
	start(true, 2)
}

func TestAStartWaitsForALabelThatIsNotKnown(t *testing.T) {
	t.Parallel()
	api := apitest.New(t, map[string]string{key: "many"})
	api.Unavailable(math.MaxInt)
	go func() {
		for api.Requests()["list nodes"] < 2 && t.Context().Err() == nil {
			<-time.After(time.Millisecond)
		}
		api.Unavailable(0)
	}()
	live, text := load(t, labelsOf(t, api), selected(t, t.TempDir())...)
	if live == nil || live.Config.N != 10 || !strings.Contains(text, "advertising nothing until it is known") {
		t.Errorf("config %v, want level 10: %s", live, text)
	}
}

// What is left of the file of the last known label is not taken for that of a node without the
// label.
func TestADamagedLastKnownLabelIsNotUsed(t *testing.T) {
	t.Parallel()
	for name, content := range map[string]string{"truncated": "", "cut off": "man", "overwritten": "many\nmore\n"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			runRoot := t.TempDir()
			api := apitest.New(t, map[string]string{key: "many"})
			labels, flags := labelsOf(t, api), selected(t, runRoot)
			if live, text := load(t, labels, flags...); live == nil {
				t.Fatal(text)
			}
			put(t, filepath.Join(runRoot, "node-labels", "example.com_config"), content)
			api.Unavailable(2)
			live, text := load(t, labels, flags...)
			if live == nil || live.Config.N != 10 || !strings.Contains(text, "advertising nothing until it is known") {
				t.Errorf("config %v, want level 10: %s", live, text)
			}
		})
	}
}

// The next start may be without the API server, whoever removes the file of the label.
func TestTheLastKnownLabelIsKeptAgain(t *testing.T) {
	t.Parallel()
	runRoot := t.TempDir()
	file := filepath.Join(runRoot, "node-labels", "example.com_config")
	api := apitest.New(t, map[string]string{key: "many"})
	follow(t, labelsOf(t, api), selected(t, runRoot)...)
	for what, damage := range map[string]func() error{
		"removed":                  func() error { return os.Remove(file) },
		"truncated":                func() error { return os.Truncate(file, 0) },
		"removed with its folder":  func() error { return os.RemoveAll(filepath.Dir(file)) },
		"replaced by another file": func() error { return os.WriteFile(file, []byte("other\n"), 0o600) },
	} {
		assert.NilError(t, damage())
		agenttest.Poll(t, "the file that was "+what, func() bool {
			data, err := os.ReadFile(file)
			return err == nil && string(data) == "many\n"
		})
	}
}
