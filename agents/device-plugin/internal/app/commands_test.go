package app_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gotest.tools/v3/assert"
	"gotest.tools/v3/golden"

	"outrigger.dev/agents/device-plugin/internal/app"
	"outrigger.dev/pkg/agent"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/gputest"
)

func run(t *testing.T, args ...string) (code int, out, errs string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code = agent.Exec(t.Context(), app.App(), append([]string{"device-plugin"}, args...), &stdout, &stderr)
	return code, stdout.String(), stderr.String()
}

func write(t *testing.T, path, content string) string {
	t.Helper()
	assert.NilError(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

func TestValidate(t *testing.T) {
	dir := t.TempDir()
	good := write(t, filepath.Join(dir, "good.yaml"), "version: v1\nresources: {gpus: [{pattern: '*', name: big}]}\n")
	bad := write(t, filepath.Join(dir, "bad.yaml"), "version: v2\nflags: {migStrategy: some}\n")
	odd := write(t, filepath.Join(t.TempDir(), "odd.yaml"), "sharing: {timeSlicing: {}}\n")
	errors := bad + ":1: version: invalid value \"v2\": must be v1\n" +
		bad + ":2: flags.migStrategy: invalid value \"some\": must be none, single or mixed\n"
	for name, tc := range map[string]struct {
		args      []string
		env       map[string]string
		code      int
		out, errs string
	}{
		"a good file":                   {args: []string{"validate", "--config", good}, out: good + ": valid\n"},
		"by the name of the flag":       {args: []string{"--config-file", good, "validate"}, out: good + ": valid\n"},
		"all that is wrong with a file": {args: []string{"validate", "--config", bad}, code: 1, out: errors, errs: "device-plugin: " + bad + " is not valid\n"},
		"a folder":                      {args: []string{"validate", "--config-dir", dir}, code: 1, out: errors + good + ": valid\n", errs: "device-plugin: " + bad + " is not valid\n"},
		"flags that go with what is named in the file": {args: []string{"validate", "--config", good, "--resource-config=big:small:2"}, out: good + ": valid\n"},
		"a variable that is wrong": {
			args: []string{"validate", "--config", good}, env: map[string]string{"DEVICE_ID_STRATEGY": "minor"},
			code: 2, errs: "device-plugin: flag --device-id-strategy (environment variable DEVICE_ID_STRATEGY): invalid value \"minor\": must be uuid or index\n",
		},
		"a file that is not what it seems": {
			args: []string{"validate", "--config", odd},
			out:  "warning: " + odd + ":1: sharing.timeSlicing: it has no resources, so nothing is shared\n" + odd + ": valid\n",
		},
		"a file that is not there": {
			args: []string{"validate", "--config", dir + "/none"}, code: 1,
			out: "open " + dir + "/none: no such file or directory: create it, or use another path; in a pod, mount it\n", errs: "device-plugin: " + dir + "/none is not valid\n",
		},
		"no file": {
			args: []string{"validate"}, code: 2,
			errs: "device-plugin: flag --config: needs a value: the config file; or set --config-dir to a folder of config files\n",
		},
		"a file without flag": {
			args: []string{"validate", good}, code: 2,
			errs: "device-plugin: unexpected argument \"" + good + "\"",
		},
		"a folder without files": {args: []string{"validate", "--config-dir", t.TempDir()}, code: 1, errs: "device-plugin: no file in "},
	} {
		t.Run(name, func(t *testing.T) {
			for k, v := range tc.env {
				t.Setenv(k, v)
			}
			code, out, errs := run(t, tc.args...)
			if code != tc.code {
				t.Errorf("exit code %d, want %d", code, tc.code)
			}
			if diff := cmp.Diff(tc.out, out); diff != "" {
				t.Errorf("standard output (-want +got):\n%s", diff)
			}
			if !strings.HasPrefix(errs, tc.errs) || tc.errs == "" && errs != "" {
				t.Errorf("standard error %q, want %q", errs, tc.errs)
			}
		})
	}
}

// mixedNode has a GPU of each kind: divided, whole, lost, and one that does not
// even say its name.
func mixedNode(t *testing.T) string {
	t.Helper()
	node := gputest.Node(gputest.A100, 4)
	node.Links = nil
	profile := func(text string) gpu.Profile {
		p, err := gpu.ParseProfile(text)
		assert.NilError(t, err)
		return p
	}
	node.GPUs[0].MIG = &gpu.MIG{Enabled: true, Pending: true, Devices: []gpu.MIGDevice{
		{
			UUID: "MIG-00000000-0000-4000-8000-000000000001", Index: 0, GPUInstance: 1, Profile: profile("3g.20gb"),
			Placement: gpu.Placement{Start: 4, Size: 4}, MemoryBytes: 20 << 30, GPUInstanceCap: 12, ComputeInstanceCap: 13,
			Engines: gpu.Engines{Multiprocessors: 42, GPUInstanceSlices: 3, ComputeInstanceSlices: 3},
		},
		{
			UUID: "MIG-00000000-0000-4000-8000-000000000002", Index: 1, GPUInstance: 7, Profile: profile("1g.5gb"),
			Placement: gpu.Placement{Start: 0, Size: 1}, MemoryBytes: 5 << 30, GPUInstanceCap: 66, ComputeInstanceCap: 67,
			Engines: gpu.Engines{Multiprocessors: 14, GPUInstanceSlices: 1, ComputeInstanceSlices: 1},
		},
	}}
	node.GPUs[2].Fault = &gpu.Fault{Op: "nvmlDeviceGetMemoryInfo", Reason: "GPU is lost"}
	node.GPUs[3] = gpu.GPU{Index: 3, Minor: -1, NUMANode: -1, Fault: &gpu.Fault{Op: "nvmlDeviceGetHandleByIndex_v2", Reason: "GPU is lost"}}
	data, err := json.Marshal(node)
	assert.NilError(t, err)
	if _, err := gpu.Decode(data); err != nil {
		t.Fatal(err)
	}
	return write(t, filepath.Join(t.TempDir(), "snapshot.json"), string(data))
}

func TestExplain(t *testing.T) {
	node := mixedNode(t)
	file := write(t, filepath.Join(t.TempDir(), "c.yaml"), `version: v1
flags: {migStrategy: mixed}
sharing:
  timeSlicing:
    failRequestsGreaterThanOne: true
    resources:
    - {name: gpu, rename: gpu-4, replicas: 4, devices: [1]}
    - {name: mig-1g.5gb, replicas: 2}
    - {name: mig-7g.40gb, replicas: 2}
devices:
  exclude: ["0:0"]
`)
	for name, args := range map[string][]string{
		"table":    {"explain", "--config", file, "--node", node},
		"json":     {"explain", "--config", file, "--node", node, "--output", "json"},
		"defaults": {"explain", "--node", node},
		"flags":    {"explain", "--gpu-source", "file:" + node, "--mig-strategy=mixed", "--resource-config=gpu:shared:2,mig-3g.20gb:shared"},
		"nothing":  {"explain", "--node", write(t, filepath.Join(t.TempDir(), "none.json"), `{"driver":{"version":"580.95.05"},"gpus":[]}`)},
	} {
		t.Run(name, func(t *testing.T) {
			code, out, errs := run(t, args...)
			if code != 0 || errs != "" {
				t.Errorf("exit code %d: %s", code, errs)
			}
			golden.Assert(t, out, "explain-"+name+".golden")
		})
	}
}

func TestExplainRejects(t *testing.T) {
	node := mixedNode(t)
	broken := write(t, filepath.Join(t.TempDir(), "broken.json"), `{"gpus": 3}`)
	for name, tc := range map[string]struct {
		args []string
		code int
		want string
	}{
		"a format":               {[]string{"explain", "--node", node, "--output", "yaml"}, 2, `flag --output (environment variable EXPLAIN_OUTPUT): invalid value "yaml": must be table or json`},
		"a word too many":        {[]string{"explain", node}, 2, `unexpected argument "` + node},
		"a snapshot":             {[]string{"explain", "--node", broken}, 1, broken},
		"a source":               {[]string{"explain", "--gpu-source", "x"}, 2, "--gpu-source"},
		"a config":               {[]string{"explain", "--node", node, "--config", broken}, 1, broken + ":1: gpus: unknown key"},
		"a log level":            {[]string{"explain", "--node", node, "--log-level", "x"}, 2, "--log-level"},
		"a relative driver root": {[]string{"explain", "--node", node, "--driver-root", "x"}, 2, "--driver-root"},
	} {
		t.Run(name, func(t *testing.T) {
			code, out, errs := run(t, tc.args...)
			if code != tc.code || out != "" || !strings.Contains(errs, tc.want) || strings.Count(errs, "\n") != 1 {
				t.Errorf("exit code %d, %q, %q, want %d and one line with %q", code, out, errs, tc.code, tc.want)
			}
		})
	}
}

func TestTheInitContainerOfNVIDIAsChartForMPSEnds(t *testing.T) {
	var stdout, stderr bytes.Buffer
	code := agent.Exec(t.Context(), app.MPS(), []string{"mps-control-daemon", "mount-shm"}, &stdout, &stderr)
	want := "mount-shm: nothing to do: mps-control-daemon mounts the shared memory of each daemon itself\n"
	if code != 0 || stdout.String() != want || stderr.String() != "" {
		t.Errorf("exit code %d, %q, %q, want %q", code, stdout.String(), stderr.String(), want)
	}
}
