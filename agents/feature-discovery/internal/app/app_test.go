package app_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	"gotest.tools/v3/assert"
	"gotest.tools/v3/golden"

	"outrigger.dev/agents/feature-discovery/internal/app"
	"outrigger.dev/pkg/agent"
	"outrigger.dev/pkg/agent/agenttest"
	"outrigger.dev/pkg/gpu/gputest"
)

func run(t *testing.T, args ...string) (code int, out, errs string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code = agent.Exec(t.Context(), app.App("feature-discovery"), append([]string{"feature-discovery", "--log-level=error"}, args...), &stdout, &stderr)
	return code, stdout.String(), stderr.String()
}

func TestAppIsValid(t *testing.T) {
	assert.NilError(t, agenttest.CheckApp(app.App("feature-discovery")))
	assert.NilError(t, agenttest.CheckHelp(app.App("feature-discovery")))
}

func TestHelp(t *testing.T) {
	code, out, errs := run(t, "--help")
	if code != 0 {
		t.Fatalf("exit code %d: %s", code, errs)
	}
	golden.Assert(t, out, "help.golden")
}

// snapshot writes that of a node, for --gpu-source.
func snapshot(t *testing.T, model gputest.Model, count int) string {
	t.Helper()
	data, err := json.Marshal(gputest.Node(model, count))
	assert.NilError(t, err)
	path := filepath.Join(t.TempDir(), "snapshot.json")
	assert.NilError(t, os.WriteFile(path, data, 0o600))
	return path
}

// bare are the flags of a machine without a bus.
func bare(t *testing.T) []string {
	t.Helper()
	machine := filepath.Join(t.TempDir(), "product_name")
	assert.NilError(t, os.WriteFile(machine, []byte("DGX H100\n"), 0o600))
	return []string{"--oneshot", "--sys-root", t.TempDir(), "--machine-type-file", machine}
}

func TestOneshotPrintsLabels(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	args := append(bare(t), "--no-timestamp", "--gpu-source=file:"+snapshot(t, gputest.H100, 8))
	for name, selects := range map[string][]string{
		"the flag":                     {"--publish=stdout"},
		"as GPU Feature Discovery":     {"--output="},
		"as GPU Feature Discovery, -o": {"-o", ""},
	} {
		t.Run(name, func(t *testing.T) {
			code, out, errs := run(t, append(args, selects...)...)
			if code != 0 {
				t.Fatalf("exit code %d: %s", code, errs)
			}
			golden.Assert(t, out, "oneshot.golden")
		})
	}
}

// TestLabelsForAFileNeedNoNodeName has a pod of GPU Feature Discovery's own
// manifest, which has no NODE_NAME.
func TestLabelsForAFileNeedNoNodeName(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "192.0.2.1")
	t.Setenv("KUBERNETES_SERVICE_PORT", "443")
	t.Setenv("NODE_NAME", "")
	args := append(bare(t), "--no-timestamp", "--gpu-source=file:"+snapshot(t, gputest.H100, 8))
	code, out, errs := run(t, append(args, "--output-file=")...)
	if code != 0 {
		t.Fatalf("exit code %d: %s", code, errs)
	}
	golden.Assert(t, out, "oneshot.golden")
	for _, needs := range []string{"--publish=node", "--use-node-feature-api", "--config-dir=" + t.TempDir(), "--ready-chain=driver"} {
		code, _, errs := run(t, append(args, "--output-file=", needs)...)
		if code != 2 || !strings.Contains(errs, "set NODE_NAME") {
			t.Errorf("%s: exit code %d: %s", needs, code, errs)
		}
	}
}

func TestOneshotWritesTheFile(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	path := filepath.Join(t.TempDir(), "gfd")
	t.Setenv("GFD_OUTPUT_FILE", path)
	code, out, errs := run(t, append(bare(t), "--gpu-source=file:"+snapshot(t, gputest.L4, 1))...)
	if code != 0 || out != "" {
		t.Fatalf("exit code %d: %s%s", code, out, errs)
	}
	data, err := os.ReadFile(path)
	if err != nil || !strings.Contains(string(data), "nvidia.com/gpu.product=NVIDIA-L4\n") || !strings.Contains(string(data), "nvidia.com/gfd.timestamp=") {
		t.Errorf("file %q, %v", data, err)
	}
}

func TestAMachineTypeFileThatCannotBeReadIsNamed(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	dir := t.TempDir()
	pipe, none := filepath.Join(dir, "pipe"), filepath.Join(dir, "none")
	assert.NilError(t, unix.Mkfifo(pipe, 0o600))
	for name, tc := range map[string]struct{ flag, want string }{
		"a named pipe":          {"--machine-type-file=" + pipe, pipe + ": it is a named pipe"},
		"a file that is absent": {"--machine-type-file=" + none, none + ": no such file"},
		// Many machines have no DMI.
		"the default that is absent": {"--no-timestamp", ""},
		"no file":                    {"--machine-type-file=", ""},
	} {
		t.Run(name, func(t *testing.T) {
			var out, errs bytes.Buffer
			code := agent.Exec(t.Context(), app.App("feature-discovery"), []string{
				"feature-discovery", "--log-level=warn", "--oneshot", "--publish=stdout", "--sys-root", t.TempDir(),
				"--gpu-source=file:" + snapshot(t, gputest.L4, 1), tc.flag,
			}, &out, &errs)
			if code != 0 || !strings.Contains(out.String(), "nvidia.com/gpu.machine=unknown\n") {
				t.Errorf("exit code %d: %s", code, out.String())
			}
			const message = "cannot read the machine type"
			if got := errs.String(); strings.Contains(got, message) != (tc.want != "") || !strings.Contains(got, tc.want) {
				t.Errorf("log %q, want %q in it", got, tc.want)
			}
		})
	}
}

func TestBadFlags(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	for name, tc := range map[string]struct {
		args []string
		want string
		code int
	}{
		"an output that there is not":     {[]string{"--publish=file"}, "flag --publish (environment variable PUBLISH): invalid value \"file\": must be node, nfd-file, nodefeature or stdout", 2},
		"the Node outside of a cluster":   {[]string{"--publish=node"}, "use --publish=stdout", 2},
		"a link that there is not":        {[]string{"--ready-chain=driver,gpu", "--publish=stdout"}, "flag --ready-chain", 2},
		"a taint without effect":          {[]string{"--startup-taint=a", "--publish=stdout"}, "flag --startup-taint", 2},
		"an interval that is none":        {[]string{"--sleep-interval=often", "--publish=stdout"}, "flag --sleep-interval", 2},
		"presence and a file":             {[]string{"--presence", "--publish=nfd-file"}, "cannot be combined with --presence", 2},
		"presence outside of a cluster":   {[]string{"--presence"}, "flag --presence (environment variable PRESENCE): it needs the API server", 2},
		"a snapshot that is not there":    {[]string{"--oneshot", "--publish=stdout", "--gpu-source=file:/none.json"}, "/none.json", 1},
		"a relative features file":        {[]string{"--output-file=gfd"}, "flag --output-file", 2},
		"a config file that is not there": {[]string{"--config-file=/none.yaml", "--publish=stdout"}, "/none.yaml", 1},
	} {
		t.Run(name, func(t *testing.T) {
			code, out, errs := run(t, append([]string{"--listen="}, tc.args...)...)
			if code != tc.code || out != "" || !strings.Contains(errs, tc.want) {
				t.Errorf("exit code %d, %q, %q, want %d with %q", code, out, errs, tc.code, tc.want)
			}
		})
	}
}
