package agent_test

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gotest.tools/v3/assert"

	"outrigger.dev/pkg/agent"
	"outrigger.dev/pkg/cmdline/cmdlinetest"
	"outrigger.dev/pkg/contract"
)

func TestCommandLine(t *testing.T) {
	p := cmdlinetest.Program{Name: "test-agent", Usage: 2, Run: func(args []string, stdout, stderr io.Writer) int {
		return agent.Exec(t.Context(), testApp(), args, stdout, stderr)
	}}
	p.Agent(t, map[string]cmdlinetest.Case{
		"an integer":                       {Line: "--replicas two", Code: 2, Want: []string{"replicas", `"two"`}},
		"an integer of an alias":           {Line: "--copies=two", Code: 2, Want: []string{`"two"`}},
		"an integer by variable":           {Env: map[string]string{"REPLICAS": "two"}, Code: 2, Want: []string{"replicas", "REPLICAS", `"two"`}},
		"an integer of a command":          {Line: "extra --count=x", Code: 2, Want: []string{"count", `"x"`}},
		"a level goes before its variable": {Line: "--log-format=yaml", Env: map[string]string{"LOG_FORMAT": "xml"}, Code: 2, Want: []string{"--log-format", `"yaml"`}},
		"a relative path":                  {Line: "--driver-root x", Code: 2, Want: []string{"--driver-root", `"x"`, "an absolute path"}},
		"a source of GPUs":                 {Line: "--gpu-source file:", Code: 2, Want: []string{"--gpu-source", "GPU_SOURCE", `"file:"`, "nvml or file:PATH"}},
		"wait for nothing":                 {Line: "wait", Code: 2, Want: []string{"--for", "WAIT_FOR", "cuda-ready"}},
		"wait for what there is not":       {Line: "wait --for godot", Code: 2, Want: []string{"--for", "WAIT_FOR", `"godot"`}},
		"wait for less than no time":       {Line: "wait --for=cuda-ready --timeout=-1s", Code: 2, Want: []string{"--timeout", "WAIT_TIMEOUT", `"-1s"`}},
		"a word after a command":           {Line: "wait --version", Want: []string{"test-agent "}},
	})
}

func TestSnapshot(t *testing.T) {
	file := filepath.Join(t.TempDir(), "snapshot.json")
	node := `{"driver":{"version":"580.95.05","nvmlVersion":"13.580.95.05","cuda":{"major":13,"minor":0}},` +
		`"gpus":[{"index":0,"uuid":"GPU-1","minor":0,"name":"A <b>","pci":{"busId":"0000:17:00.0","deviceId":1,"subsystemId":2},` +
		`"numaNode":0,"memoryBytes":42,"computeCapability":{"major":8,"minor":0}}]}`
	assert.NilError(t, os.WriteFile(file, []byte(node), 0o600))
	// The agent's flags are understood on both sides of the command.
	for _, args := range [][]string{
		{"snapshot", "--gpu-source", "file:" + file}, {"--gpu-source=file:" + file, "snapshot"},
	} {
		code, out, errs := run(t, args...)
		if code != 0 {
			t.Fatalf("exit code %d: %s", code, errs)
		}
		if !strings.Contains(out, "\n  \"gpus\": [\n    {\n") || !strings.Contains(out, "A <b>") {
			t.Errorf("want indented, unescaped JSON, got:\n%s", out)
		}
		var compact bytes.Buffer
		assert.NilError(t, json.Compact(&compact, []byte(out)))
		if diff := cmp.Diff(node, compact.String()); diff != "" {
			t.Errorf("snapshot (-want +got):\n%s", diff)
		}
	}
	for want, args := range map[string][]string{
		"test-agent: this agent has no NVML\n": {"snapshot"},
		"test-agent: read GPUs: ":              {"snapshot", "--gpu-source=file:" + file + ".none"},
	} {
		code, _, errs := run(t, args...)
		if code != 1 || !strings.HasPrefix(errs, want) || strings.Count(errs, "\n") != 1 {
			t.Errorf("want exit code 1 and the line %q, got %d and %q", want, code, errs)
		}
	}
}

func TestSnapshotOnlyWithSource(t *testing.T) {
	app := testApp()
	app.Source = nil
	var out, errs bytes.Buffer
	if code := agent.Exec(t.Context(), app, []string{"x", "snapshot"}, &out, &errs); code != 2 {
		t.Errorf("want exit code 2, got %d: %s", code, errs.String())
	}
}

func TestWait(t *testing.T) {
	root := t.TempDir()
	d := contract.Dir{Root: root}
	p := startProcess(t, "run", "wait", "--for=toolkit-ready", "--timeout=20s", "--run-root", root)
	p.logs.wait(t, "msg=waiting for=toolkit-ready state=missing")
	assert.NilError(t, d.Write(contract.ToolkitReady, contract.Record{Writer: "container-toolkit"}))
	if code := p.end(); code != 0 {
		t.Errorf("want exit code 0, got %d", code)
	}
	p.logs.wait(t, "msg=ready fact=toolkit-ready writer=container-toolkit")

	code, _, errs := run(t, "wait", "--for=driver-ready", "--timeout=10ms", "--run-root", root)
	want := "test-agent: wait for driver-ready: " + d.Path(contract.DriverReady) + " has not been written yet: timed out after 10ms\n"
	if code != 1 || !strings.HasSuffix(errs, want) {
		t.Errorf("want exit code 1 and %q, got %d and %q", want, code, errs)
	}
}

func TestOwnCommand(t *testing.T) {
	code, _, errs := run(t, "extra", "--count=3", "--copies", "2", "--interval=1s", "--log-level=debug", "--log-format=json")
	if code != 0 || !strings.Contains(errs, `"level":"DEBUG","msg":"extra","count":3,"replicas":2,"interval":"1s"}`) {
		t.Errorf("got %d and %q", code, errs)
	}
}
