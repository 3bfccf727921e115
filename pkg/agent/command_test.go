package agent_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gotest.tools/v3/golden"

	"outrigger.dev/pkg/agent"
	"outrigger.dev/pkg/contract"
)

func TestHelp(t *testing.T) {
	for line, file := range map[string]string{
		"--help":      "help",
		"help":        "help",
		"wait --help": "help-wait",
		"help wait":   "help-wait",
		"help help":   "help",
	} {
		t.Run(line, func(t *testing.T) {
			code, out, errs := run(t, strings.Fields(line)...)
			if code != 0 || errs != "" {
				t.Errorf("want exit code 0 and nothing on standard error, got %d and %q", code, errs)
			}
			golden.Assert(t, out, file+".golden")
		})
	}
}

func TestUsageErrors(t *testing.T) {
	cases := map[string]struct {
		args []string
		env  map[string]string
		want string
	}{
		"unknown flag": {
			args: []string{"--colour", "red"}, want: "unknown flag --colour: see 'test-agent --help'",
		},
		"unknown flag of a command": {
			args: []string{"wait", "--colour"}, want: "unknown flag --colour: see 'test-agent wait --help'",
		},
		"unknown flag before a command": {
			args: []string{"--colour", "wait"}, want: "unknown flag --colour: see 'test-agent --help'",
		},
		"help of an unknown command": {
			args: []string{"help", "dance"}, want: `unknown command "dance": must be version, completion, probe, snapshot, wait, extra or help`,
		},
		"help of two commands": {
			args: []string{"help", "wait", "version"}, want: `unexpected argument "version" after "help wait"`,
		},
		"unknown flag of help": {
			args: []string{"help", "--colour"}, want: "unknown flag --colour: see 'test-agent help --help'",
		},
		"unknown command": {
			args: []string{"dance"}, want: `unknown command "dance": must be version, completion, probe, snapshot, wait, extra or help`,
		},
		"argument too many": {
			args: []string{"version", "now"}, want: `unexpected argument "now" after "version"`,
		},
		"a flag without its value": {
			args: []string{"--replicas"}, want: "flag --replicas: needs a value",
		},
		"an integer": {
			args: []string{"--replicas", "two"}, want: `flag --replicas: invalid value "two": must be an integer`,
		},
		"an integer of an alias": {
			args: []string{"--copies=two"}, want: `flag --replicas: invalid value "two": must be an integer`,
		},
		"an integer from the environment": {
			env:  map[string]string{"REPLICAS": "two"},
			want: `environment variable REPLICAS (flag --replicas): invalid value "two": must be an integer`,
		},
		"a duration": {
			args: []string{"--interval=5"}, want: `flag --interval: invalid value "5": must be a duration such as 500ms, 30s or 5m`,
		},
		"a truth": {
			args: []string{"--strict=maybe"}, want: `flag --strict: invalid value "maybe": must be true or false`,
		},
		"a truth from the environment": {
			env:  map[string]string{"STRICT": "maybe"},
			want: `environment variable STRICT (flag --strict): invalid value "maybe": must be true or false`,
		},
		"an integer below 0": {
			args: []string{"--port=-1"}, want: `flag --port: invalid value "-1": must be an integer of at least 0`,
		},
		"several integers": {
			args: []string{"--ids", "1,two"}, want: `flag --ids: invalid value "1,two": must be a comma-separated list of integers`,
		},
		"several integers from the environment": {
			env:  map[string]string{"IDS": "1,two"},
			want: `environment variable IDS (flag --ids): invalid value "1,two": must be a comma-separated list of integers`,
		},
		"a number": {
			args: []string{"--share=x"}, want: `flag --share: invalid value "x": must be a number`,
		},
		"an integer of an agent's own command": {
			args: []string{"extra", "--count=x"}, want: `flag --count: invalid value "x": must be an integer`,
		},
		"a word that is none of the allowed": {
			args: []string{"--log-level", "loud"}, want: `flag --log-level: invalid value "loud": must be debug, info, warn or error`,
		},
		"a log format": {
			args: []string{"version", "--log-format=xml"}, want: "",
		},
		"a log format of a command that logs": {
			args: []string{"snapshot", "--log-format=xml"}, want: `flag --log-format: invalid value "xml": must be text or json`,
		},
		"a log format of wait": {
			args: []string{"--log-format=xml", "wait"}, want: `flag --log-format: invalid value "xml": must be text or json`,
		},
		"a word from the environment": {
			env: map[string]string{"LOG_FORMAT": "xml"}, want: `environment variable LOG_FORMAT (flag --log-format): invalid value "xml": must be text or json`,
		},
		"a word from the environment that the command line replaces": {
			args: []string{"--log-format=yaml"}, env: map[string]string{"LOG_FORMAT": "xml"}, want: `flag --log-format: invalid value "yaml": must be text or json`,
		},
		"a flag of a command from the environment": {
			args: []string{"wait"}, env: map[string]string{"WAIT_FOR": "godot"},
			want: `environment variable WAIT_FOR (flag --for): invalid value "godot": must be driver-ready, mig-ready, toolkit-ready, plugin-ready, dra-ready or cuda-ready`,
		},
		"an address": {
			args: []string{"--listen", "9410"}, want: `flag --listen: invalid value "9410": must be host:port, :port, or empty for off`,
		},
		"relative paths, all of them": {
			args: []string{"--driver-root", "x", "--sys-root=y"},
			want: `flag --driver-root: invalid value "x": must be an absolute path; flag --sys-root: invalid value "y": must be an absolute path`,
		},
		"a source of GPUs": {
			args: []string{"--gpu-source", "file:"}, want: `flag --gpu-source: invalid value "file:": must be nvml or file:PATH`,
		},
		"wait for nothing": {
			args: []string{"wait"}, want: "flag --for: needs a value: driver-ready, mig-ready, toolkit-ready, plugin-ready, dra-ready or cuda-ready",
		},
		"wait for what there is not": {
			args: []string{"wait", "--for", "godot"},
			want: `flag --for: invalid value "godot": must be driver-ready, mig-ready, toolkit-ready, plugin-ready, dra-ready or cuda-ready`,
		},
		"wait for less than no time": {
			args: []string{"wait", "--for=cuda-ready", "--timeout=-1s"}, want: `flag --timeout: invalid value "-1s": must be a duration of at least 0`,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			for k, v := range tc.env {
				t.Setenv(k, v)
			}
			code, out, errs := run(t, tc.args...)
			if tc.want == "" {
				if code != 0 {
					t.Errorf("want exit code 0, got %d: %s", code, errs)
				}
				return
			}
			if code != 2 || out != "" {
				t.Errorf("want exit code 2 and nothing on standard output, got %d and %q", code, out)
			}
			if want := "test-agent: " + tc.want + "\n"; errs != want {
				t.Errorf("want %q, got %q", want, errs)
			}
		})
	}
}

func TestVersion(t *testing.T) {
	want := "test-agent dev " + runtime.Version() + " " + runtime.GOOS + "/" + runtime.GOARCH + "\n"
	for _, args := range [][]string{{"version"}, {"--version"}, {"-v"}, {"--replicas=2", "--version"}, {"wait", "--version"}} {
		code, out, errs := run(t, args...)
		if code != 0 || out != want || errs != "" {
			t.Errorf("%q: want %q, got %d, %q, %q", args, want, code, out, errs)
		}
	}
}

func TestSnapshot(t *testing.T) {
	file := filepath.Join(t.TempDir(), "snapshot.json")
	node := `{"driver":{"version":"580.95.05","nvmlVersion":"13.580.95.05","cuda":{"major":13,"minor":0}},` +
		`"gpus":[{"index":0,"uuid":"GPU-1","minor":0,"name":"A <b>","pci":{"busId":"0000:17:00.0","deviceId":1,"subsystemId":2},` +
		`"numaNode":0,"memoryBytes":42,"computeCapability":{"major":8,"minor":0}}]}`
	must(t, os.WriteFile(file, []byte(node), 0o600))
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
		must(t, json.Compact(&compact, []byte(out)))
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
	must(t, d.Write(contract.ToolkitReady, contract.Record{Writer: "container-toolkit"}))
	if code, _ := p.end(); code != 0 {
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
