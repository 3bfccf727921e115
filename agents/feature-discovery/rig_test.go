package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"outrigger.dev/pkg/agent/agenttest"
	"outrigger.dev/pkg/gpu/simtest"
)

// The tests of this package run feature discovery as a process on the simulated
// node, with a features file of Node Feature Discovery as its output.

func TestMain(m *testing.M) { agenttest.Main(m, agenttest.Pod(main)) }

// process is feature discovery that keeps a features file.
type process struct {
	*agenttest.Process
	t    *testing.T
	file string
}

// start starts feature discovery in the node, with a file in a folder of its own.
func start(t *testing.T, n *simtest.Node, args ...string) *process {
	t.Helper()
	return startWith(t, n, filepath.Join(t.TempDir(), "gfd"), args...)
}

// startWith is start with a given file.
func startWith(t *testing.T, n *simtest.Node, file string, args ...string) *process {
	t.Helper()
	cmd := agenttest.Command(t, n, append([]string{
		"--publish", "nfd-file", "--output-file", file, "--run-root", t.TempDir(), "--listen", "127.0.0.1:0",
	}, args...)...)
	return &process{Process: agenttest.Start(t, cmd), t: t, file: file}
}

// content returns what is in a file, and whether it is there.
func content(t *testing.T, path string) (text string, there bool) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return string(data), err == nil
}

// labels returns the labels of nvidia.com in the file, without that domain.
func (p *process) labels() map[string]string {
	p.t.Helper()
	text, _ := content(p.t, p.file)
	out := map[string]string{}
	for line := range strings.Lines(text) {
		key, value, ok := strings.Cut(strings.TrimSpace(line), "=")
		name, ours := strings.CutPrefix(key, "nvidia.com/")
		if !ok || !ours {
			p.t.Fatalf("the features file has the line %q", line)
		}
		out[name] = value
	}
	return out
}

// has waits until the file has these labels, among others.
func (p *process) has(want map[string]string) {
	p.t.Helper()
	p.shows(fmt.Sprintf("the labels %v", want), func(got map[string]string) bool { return includes(got, want) })
}

// includes reports whether all of want is in got.
func includes(got, want map[string]string) bool {
	for name, value := range want {
		if there, ok := got[name]; !ok || there != value {
			return false
		}
	}
	return true
}

// shows waits until ok holds for the labels in the file.
func (p *process) shows(what string, ok func(labels map[string]string) bool) {
	p.t.Helper()
	defer func() {
		if p.t.Failed() {
			p.t.Logf("the labels are %v", p.labels())
		}
	}()
	agenttest.Poll(p.t, what, func() bool { return ok(p.labels()) })
}

// ready waits until the agent says that the node has the labels it should have.
func (p *process) ready() {
	p.t.Helper()
	agenttest.Poll(p.t, "/readyz to be ok", func() bool {
		status, body := p.Ask("/readyz")
		return status == 200 && body == "ok\n"
	})
}

// unready waits until the agent says why the node has not.
func (p *process) unready(parts ...string) {
	p.t.Helper()
	agenttest.Poll(p.t, fmt.Sprintf("/readyz to say %q", parts), func() bool {
		status, body := p.Ask("/readyz")
		for _, part := range parts {
			if !strings.Contains(body, part) {
				return false
			}
		}
		return status == 503
	})
}

// metric waits until /metrics has a line of the agent's own that begins so.
func (p *process) metric(line string) {
	p.t.Helper()
	agenttest.Poll(p.t, "the metric "+line, func() bool { return p.hasMetric(line) })
}

func (p *process) hasMetric(line string) bool {
	p.t.Helper()
	return strings.Contains("\n"+p.Get("/metrics"), "\noutrigger_feature_discovery_"+line)
}

// simulated returns labels as they have to be on a node with GPUs of one model,
// by what the simulator says of it.
func simulated(t *testing.T, n *simtest.Node) map[string]string {
	t.Helper()
	var shown struct {
		Driver struct {
			Version string `json:"version"`
		} `json:"driver"`
		GPUs []struct {
			Name        string `json:"name"`
			MemoryBytes uint64 `json:"memoryBytes"`
		} `json:"gpus"`
	}
	assert.NilError(t, json.Unmarshal(n.Run("show", "--json"), &shown))
	return map[string]string{
		"gpu.product":              strings.ReplaceAll(shown.GPUs[0].Name, " ", "-"),
		"gpu.count":                strconv.Itoa(len(shown.GPUs)),
		"gpu.replicas":             "1",
		"gpu.memory":               strconv.FormatUint(shown.GPUs[0].MemoryBytes>>20, 10),
		"cuda.driver-version.full": shown.Driver.Version,
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	assert.NilError(t, os.WriteFile(path, []byte(text), 0o644))
}
