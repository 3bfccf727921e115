package shim_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"gotest.tools/v3/assert"
	"gotest.tools/v3/golden"

	"outrigger.dev/agents/container-toolkit/internal/facts"
	"outrigger.dev/agents/container-toolkit/internal/shim"
	"outrigger.dev/pkg/driverproc"
	"outrigger.dev/pkg/gpu"
)

// node is a folder with a config.toml, CDI specs, a low-level runtime and a bundle.
type node struct {
	dir string
	t   testing.TB
}

// gpuSpec is a CDI spec of two GPUs. Its nodes need not exist.
const gpuSpec = `{"cdiVersion":"0.5.0","kind":"nvidia.com/gpu","containerEdits":{"env":["NVIDIA_VISIBLE_DEVICES=void"],
"deviceNodes":[{"path":"/dev/nvidiactl","type":"c","major":195,"minor":255,"permissions":"rw"}],
"mounts":[{"hostPath":"/usr/lib64/libcuda.so.580.95.05","containerPath":"/usr/lib64/libcuda.so.580.95.05","options":["ro","rbind"]},
{"hostPath":"/usr/lib64/libnvidia-encode.so.580.95.05","containerPath":"/usr/lib64/libnvidia-encode.so.580.95.05","options":["ro","rbind"]}],
"hooks":[{"hookName":"createContainer","path":"/usr/bin/nvidia-cdi-hook","args":["nvidia-cdi-hook","update-ldcache","--folder","/usr/lib64"],"env":["NVIDIA_CTK_DEBUG=false"]}]},
"devices":[{"name":"0","containerEdits":{"deviceNodes":[{"path":"/dev/nvidia0","type":"c","major":195,"permissions":"rw"}]}},
{"name":"1","containerEdits":{"deviceNodes":[{"path":"/dev/nvidia1","type":"c","major":195,"minor":1,"permissions":"rw"}]}}]}`

// newNode returns a node whose config.toml has these lines of the section
// nvidia-container-runtime.
func newNode(t testing.TB, lines ...string) *node {
	t.Helper()
	n := &node{dir: t.TempDir(), t: t}
	n.write("bin/runc", "#!/bin/false\n", 0o755)
	n.write("bin/nvidia-container-runtime-hook", "#!/bin/false\n", 0o755)
	n.write("cdi/gpu.json", gpuSpec, 0o644)
	n.write("config.toml", fmt.Sprintf("[nvidia-container-runtime]\nruntimes = [%q]\ndebug = %q\nmodes.cdi.spec-dirs = [%q]\n%s\n[nvidia-container-runtime-hook]\npath = %q\n",
		n.path("bin/runc"), n.path("debug.log"), n.path("cdi"), strings.Join(lines, "\n"), n.path("bin/nvidia-container-runtime-hook")), 0o644)
	return n
}

func (n *node) path(name string) string { return filepath.Join(n.dir, name) }

func (n *node) write(name, data string, mode os.FileMode) {
	n.t.Helper()
	assert.NilError(n.t, os.MkdirAll(filepath.Dir(n.path(name)), 0o755))
	assert.NilError(n.t, os.WriteFile(n.path(name), []byte(data), mode))
}

func (n *node) read(name string) string {
	n.t.Helper()
	data, err := os.ReadFile(n.path(name))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		n.t.Fatal(err)
	}
	return strings.ReplaceAll(string(data), n.dir, "DIR")
}

// bundle writes the config.json of a container with variables.
func (n *node) bundle(env ...string) string {
	n.t.Helper()
	data, err := json.Marshal(map[string]any{
		"ociVersion": "1.2.0", "process": map[string]any{"env": env, "args": []string{"sh"}}, "root": map[string]any{"path": "rootfs"}, "x-unknown": json.RawMessage("1.50"),
	})
	assert.NilError(n.t, err)
	n.write("bundle/config.json", string(data), 0o600)
	return string(data)
}

// result is how a call ended.
type result struct {
	code        int
	path        string
	args, env   []string
	stdout, err string
}

var errRan = errors.New("it ran")

// call runs the shim as a program of a name.
func (n *node) call(name string, args ...string) result {
	n.t.Helper()
	var r result
	var stdout, stderr bytes.Buffer
	vars := map[string]string{"NVIDIA_CTK_CONFIG_FILE_PATH": n.path("config.toml")}
	r.code = shim.Run(shim.Process{
		Args: append([]string{name}, args...), Getenv: func(k string) string { return vars[k] },
		Environ: func() []string { return []string{"A=1"} }, Stdout: &stdout, Stderr: &stderr,
		Exec: func(path string, args, env []string) error {
			r.path, r.args, r.env = path, args, env
			return errRan
		},
	})
	r.stdout, r.err = stdout.String(), strings.ReplaceAll(stderr.String(), n.dir, "DIR")
	if r.path != "" {
		if !strings.Contains(r.err, errRan.Error()) {
			n.t.Errorf("an error of exec is not reported: %q", r.err)
		}
		r.err = ""
	}
	return r
}

// create creates a container.
func (n *node) create(name string) result {
	return n.call(name, "--root", "/r", "--log", n.path("log.json"), "--log-format", "json", "create", "--bundle", n.path("bundle"), "id")
}

const program = "/usr/bin/nvidia-container-runtime"

func TestOtherCommandsPassUnchanged(t *testing.T) {
	n := newNode(t)
	before := n.bundle("NVIDIA_VISIBLE_DEVICES=0")
	for _, args := range [][]string{{"start", "create"}, {"delete", "--force", "id"}, {"--root", "create", "state", "id"}, {"exec", "id", "run"}, {"features"}, nil} {
		r := n.call(program, args...)
		if r.path != n.path("bin/runc") || !slices.Equal(r.args, append([]string{r.path}, args...)) || !slices.Equal(r.env, []string{"A=1"}) {
			t.Errorf("%q becomes %q %q with %q", args, r.path, r.args, r.env)
		}
	}
	if n.read("bundle/config.json") != before {
		t.Error("config.json was changed")
	}
}

func TestContainersWithoutGPUsPassUnchanged(t *testing.T) {
	n := newNode(t)
	for _, env := range [][]string{nil, {"NVIDIA_VISIBLE_DEVICES=void"}, {"NVIDIA_DRIVER_CAPABILITIES=nonsense"}} {
		before := n.bundle(env...)
		info, err := os.Stat(n.path("bundle/config.json"))
		assert.NilError(t, err)
		if r := n.create(program); r.path == "" {
			t.Errorf("%q: %s", env, r.err)
		}
		after, err := os.Stat(n.path("bundle/config.json"))
		if err != nil || !os.SameFile(info, after) || n.read("bundle/config.json") != before {
			t.Errorf("%q: config.json was written", env)
		}
	}
}

func TestGPUs(t *testing.T) {
	for name, c := range map[string]struct {
		program string
		lines   []string
		env     []string
	}{
		"by index":     {env: []string{"NVIDIA_VISIBLE_DEVICES=1", "PATH=/bin"}},
		"by CDI name":  {env: []string{"NVIDIA_VISIBLE_DEVICES=nvidia.com/gpu=0"}},
		"none":         {env: []string{"NVIDIA_VISIBLE_DEVICES=none"}},
		"legacy":       {program: program + ".legacy", env: []string{"NVIDIA_VISIBLE_DEVICES=0"}},
		"video":        {lines: []string{`mode = "jit-cdi"`}, env: []string{"NVIDIA_VISIBLE_DEVICES=0", "NVIDIA_DRIVER_CAPABILITIES=video"}},
		"another kind": {program: program + ".cdi", lines: []string{`modes.cdi.default-kind = "site.example/gpu"`}, env: []string{"NVIDIA_VISIBLE_DEVICES=all"}},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, c.lines...)
			n.write("cdi/site.yaml", "cdiVersion: 0.3.0\nkind: site.example/gpu\ndevices:\n- name: all\n  containerEdits: {env: [MANAGED=1]}\n", 0o644)
			n.bundle(c.env...)
			if c.program == "" {
				c.program = program
			}
			if r := n.create(c.program); r.path == "" {
				t.Fatal(r.err)
			}
			var indented bytes.Buffer
			assert.NilError(t, json.Indent(&indented, []byte(n.read("bundle/config.json")), "", " "))
			golden.Assert(t, indented.String()+"\n", strings.ReplaceAll(name, " ", "-")+".golden")
		})
	}
}

func TestASecondCreateChangesNothing(t *testing.T) {
	n := newNode(t)
	n.bundle("NVIDIA_VISIBLE_DEVICES=0")
	n.create(program)
	first := n.read("bundle/config.json")
	if r := n.create(program); r.path == "" || n.read("bundle/config.json") != first {
		t.Errorf("the second time, config.json is %s, %s", n.read("bundle/config.json"), r.err)
	}
}

// On a node without CDI specs, the modes that choose the way themselves use the prestart hook.
func TestNoSpecs(t *testing.T) {
	for mode, hook := range map[string]bool{"auto": true, "jit-cdi": true, "legacy": true, "cdi": false} {
		n := newNode(t, `mode = "`+mode+`"`)
		assert.NilError(t, os.Remove(n.path("cdi/gpu.json")))
		n.bundle("NVIDIA_VISIBLE_DEVICES=0")
		r := n.create(program)
		if got := strings.Contains(n.read("bundle/config.json"), "nvidia-container-runtime-hook"); (r.path != "") != hook || got != hook {
			t.Errorf("mode %s: %q, the hook was added: %t, want %t", mode, r.err, got, hook)
		}
	}
}

// CDI specs do not name MIG devices as drivers before 470 do. The prestart hook knows these names.
func TestNamesOfOldDrivers(t *testing.T) {
	for mode, refused := range map[string]string{"auto": "", "jit-cdi": "", "legacy": "", "cdi": "use the UUID that nvidia-smi -L prints, or the mode auto"} {
		n := newNode(t, `mode = "`+mode+`"`)
		n.bundle("NVIDIA_VISIBLE_DEVICES=MIG-GPU-11111111-2222-3333-4444-555555555555/1/0")
		r := n.create(program)
		if !strings.Contains(r.err, refused) || (r.err == "") != (refused == "") {
			t.Errorf("mode %s: %q, want %q", mode, r.err, refused)
		}
		if got := strings.Contains(n.read("bundle/config.json"), "nvidia-container-runtime-hook"); got != (refused == "") {
			t.Errorf("mode %s: the hook was added: %t", mode, got)
		}
	}
}

func TestHooksOfTheMode(t *testing.T) {
	const hook = `"hooks":{"prestart":[{"path":"/usr/bin/nvidia-container-toolkit","args":["x"]},{"path":"/bin/mine"}]}`
	for name, c := range map[string]struct{ mode, want string }{
		"cdi removes the prestart hook": {"cdi", `"prestart":[{"path":"/bin/mine"}]`},
		"legacy does not add a second":  {"legacy", `"prestart":[{"path":"/usr/bin/nvidia-container-toolkit","args":["x"]},{"path":"/bin/mine"}]`},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			n.write("bundle/config.json", `{"process":{"env":["NVIDIA_VISIBLE_DEVICES=0"]},`+hook+`}`, 0o600)
			if r := n.create(program + "." + c.mode); r.path == "" {
				t.Fatal(r.err)
			}
			if got := n.read("bundle/config.json"); !strings.Contains(got, c.want) {
				t.Errorf("config.json is %s, want %s", got, c.want)
			}
		})
	}
}

func TestRequirementsInModeCDI(t *testing.T) {
	known := &facts.Facts{Driver: "580.95.05", CUDA: "13.0", GPUs: []facts.GPU{{Names: []string{"0"}, Arch: "9.0", Brand: "tesla"}, {Names: []string{"1"}, Arch: "7.5", Brand: "tesla"}}}
	for name, c := range map[string]struct {
		facts     *facts.Facts
		devices   string
		condition string
		err       string
	}{
		"that hold":                  {known, "0", "cuda>=12.6,arch>=9.0,brand=tesla", ""},
		"that do not":                {known, "0", "cuda>=13.1", "GPU 0 does not meet NVIDIA_REQUIRE_X=cuda>=13.1: cuda is 13.0: update the driver"},
		"that one of two GPUs lacks": {known, "0,1", "arch>=9.0", "GPU 1 does not meet"},
		"on a driver without a GPU":  {known, "none", "driver>=580", ""},
		"without facts":              {nil, "0", "arch>=8.0", "arch is unknown (write the CDI spec again with nvidia-ctk cdi generate)"},
		"that are no condition":      {known, "0", "cuda~12", `"cuda~12" is invalid`},
		"that are ignored":           {nil, "0", "cuda>=99,NVIDIA_DISABLE_REQUIRE", ""},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			if c.facts != nil {
				assert.NilError(t, facts.Write(n.path("cdi/gpu.json"), []byte(gpuSpec), c.facts))
			}
			condition, ignored := strings.CutSuffix(c.condition, ",NVIDIA_DISABLE_REQUIRE")
			before := n.bundle("NVIDIA_VISIBLE_DEVICES="+c.devices, "NVIDIA_REQUIRE_X="+condition, fmt.Sprintf("NVIDIA_DISABLE_REQUIRE=%v", ignored))
			r := n.create(program)
			if !strings.Contains(r.err, c.err) || (r.path == "") != (c.err != "") {
				t.Errorf("create = %q, %q, want the error %q", r.path, r.err, c.err)
			}
			if c.err != "" && n.read("bundle/config.json") != before {
				t.Error("config.json was changed")
			}
		})
	}
}

// An engine reads the error from the log that it passes to the runtime.
func TestErrorsReachTheEngine(t *testing.T) {
	for name, c := range map[string]struct {
		lines []string
		env   string
		want  string
	}{
		"a device that is not there": {nil, "7", "nvidia-container-runtime: inject GPUs: unresolvable CDI devices nvidia.com/gpu=7: DIR/cdi/gpu.json has 0, 1: write the specs in DIR/cdi again with nvidia-ctk cdi generate, or see the log of the container toolkit's agent; if the node has no such device any more, delete the pod"},
		"the mode csv":               {[]string{`mode = "csv"`}, "0", "Tegra is not supported: set nvidia-container-runtime.mode to auto"},
		"a config that is wrong":     {[]string{`mode = "magic"`}, "0", "read config DIR/config.toml: line 5: key nvidia-container-runtime.mode"},
		"a config that is no TOML":   {[]string{`mode = [`}, "0", ": correct it, or replace the file: nvidia-ctk config create-default --output DIR/config.toml"},
		"no low-level runtime":       {[]string{"[nvidia-container-cli]", "[x]"}, "0", ""},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, c.lines...)
			if c.want == "" {
				assert.NilError(t, os.Remove(n.path("bin/runc")))
				c.want = "find the low-level runtime: there is no DIR/bin/runc in "
			}
			n.bundle("NVIDIA_VISIBLE_DEVICES=" + c.env)
			r := n.create(program)
			if r.code != 1 || r.path != "" || !strings.Contains(r.err, c.want) {
				t.Errorf("create = %d, %q, want %q", r.code, r.err, c.want)
			}
			var entry struct{ Level, Msg, Time string }
			if err := json.Unmarshal([]byte(n.read("log.json")), &entry); err != nil || entry.Level != "error" || entry.Msg+"\n" != r.err || entry.Time == "" {
				t.Errorf("log has %+v, %v", entry, err)
			}
			n.call(program, "--log", n.path("log.text"), "run", "--bundle="+n.path("bundle"), "id")
			if text := n.read("log.text"); !regexp.MustCompile(`^time="[^"]+" level=error msg="nvidia-container-runtime: `).MatchString(text) {
				t.Errorf("log in text has %q", text)
			}
		})
	}
}

// The low-level runtimes may have been listed in another order when a container was created.
func TestTheRuntimeThatCreatedAContainerStopsIt(t *testing.T) {
	n := newNode(t)
	n.write("bin/crun", "#!/bin/false\n", 0o755)
	n.write("config.toml", fmt.Sprintf("[nvidia-container-runtime]\nruntimes = [%q, %q]\n", n.path("bin/crun"), n.path("bin/runc")), 0o644)
	n.write("root/old/state.json", "", 0o600)
	n.write("root/new/status", "", 0o600)
	n.bundle()
	for args, want := range map[string]string{
		"kill old 9":                    "runc",
		"delete --force old":            "runc",
		"state old":                     "runc",
		"exec --process p.json -d old":  "runc",
		"update --resources - old":      "runc",
		"kill new 9":                    "crun",
		"kill other 9":                  "crun",
		"kill ../root/old 9":            "crun",
		"create --bundle BUNDLE old":    "crun",
		"features":                      "crun",
		"kill --all -- old":             "runc",
		"update --cpu-quota 50000 new ": "crun",
	} {
		command := strings.Fields(strings.ReplaceAll(args, "BUNDLE", n.path("bundle")))
		if r := n.call(program, append([]string{"--root", n.path("root")}, command...)...); r.path != n.path("bin/"+want) {
			t.Errorf("%s is executed by %q, %s, want %s", args, r.path, r.err, want)
		}
	}
}

// Engines stop and delete containers while config.toml is broken, with the low-level runtime that
// created them.
func TestOnlyCreateNeedsAValidConfig(t *testing.T) {
	for name, config := range map[string]string{
		"a value that is not allowed": "[nvidia-container-runtime]\nmode = \"magic\"\nruntimes = [\"crun\"]\n",
		"a value of another type":     "disable-require = 1\n[nvidia-container-runtime]\nruntimes = [\n  \"crun\",\n]\n",
		"a list that does not end":    "[nvidia-container-runtime]\nswarm = [\nruntimes = [\"crun\"]\n",
		"a line that is no TOML":      "[nvidia-container-runtime]\n<<<<<<< HEAD\nruntimes = [\"crun\"]\n",
		"the file ends early":         "[nvidia-container-runtime]\nruntimes = [\"crun\"]\nmode = \"au",
		"a key twice":                 "[nvidia-container-runtime]\nruntimes = [\"crun\"]\nruntimes = [\"runc\"]\n",
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			n.write("bin/crun", "#!/bin/false\n", 0o755)
			n.write("config.toml", strings.ReplaceAll(config, `"crun"`, fmt.Sprintf("%q", n.path("bin/crun"))), 0o644)
			n.bundle("NVIDIA_VISIBLE_DEVICES=0")
			for _, args := range [][]string{{"kill", "id", "9"}, {"delete", "--force", "id"}, {"state", "id"}, {"features"}} {
				r := n.call(program, append([]string{"--log", n.path("log.json"), "--log-format", "json"}, args...)...)
				if r.path != n.path("bin/crun") || !strings.Contains(n.read("log.json"), `"level":"warning","msg":"read config DIR/config.toml: line `) {
					t.Errorf("%s = %q, %q, log %s", args[0], r.path, r.err, n.read("log.json"))
				}
			}
			if r := n.create(program); r.path != "" || !strings.Contains(r.err, "read config DIR/config.toml: line ") {
				t.Errorf("create = %q, %q", r.path, r.err)
			}
		})
	}
}

// An unloaded driver is the cause of a missing device node, and not the node itself.
func TestTheHostLacksANodeOfTheDriver(t *testing.T) {
	_, noDriver := driverproc.Root("").Version()
	for path, want := range map[string]bool{
		"/dev/nvidia-outrigger-none": errors.Is(noDriver, fs.ErrNotExist), "/dev/outrigger-none": false,
	} {
		_, err := shim.HostNode(path)
		if !errors.Is(err, fs.ErrNotExist) || errors.Is(err, gpu.ErrNoDriver) != want {
			t.Errorf("HostNode(%q) = %v, want the driver to be the cause: %v", path, err, want)
		}
	}
}

func TestABundleThatCannotBeRead(t *testing.T) {
	n := newNode(t)
	for name, data := range map[string]string{"missing": "", "cut": `{"process":{"env":["NVIDIA_VISIBLE_DEVICES=0"`} {
		_ = os.RemoveAll(n.path("bundle"))
		if data != "" {
			n.write("bundle/config.json", data, 0o600)
		}
		if r := n.create(program); r.path != "" || n.read("bundle/config.json") != data {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

func TestDecisionsAreLogged(t *testing.T) {
	n := newNode(t, `log-level = "info"`, `unknown = 1`)
	n.bundle("NVIDIA_VISIBLE_DEVICES=0")
	n.create(program)
	log := n.read("debug.log")
	for _, want := range []string{"unknown key nvidia-container-runtime.unknown is ignored", "devices: 0 (NVIDIA_VISIBLE_DEVICES)", "capabilities: compute, utility", "mode: cdi (there is a CDI spec", "device: nvidia.com/gpu=0 (DIR/cdi/gpu.json)"} {
		if !strings.Contains(log, want) {
			t.Errorf("log lacks %q:\n%s", want, log)
		}
	}
	if engine := n.read("log.json"); strings.Contains(engine, "devices") {
		t.Errorf("the log of the engine has %s", engine)
	}
}

func TestALogFileThatCannotBeWritten(t *testing.T) {
	for what, spoil := range map[string]func(path string) error{
		"a folder":                       func(path string) error { return os.Mkdir(path, 0o755) },
		"a named pipe that nobody reads": func(path string) error { return syscall.Mkfifo(path, 0o600) },
	} {
		t.Run(what, func(t *testing.T) {
			n := newNode(t)
			assert.NilError(t, spoil(n.path("debug.log")))
			n.bundle("NVIDIA_VISIBLE_DEVICES=0")
			if r := n.create(program); r.path == "" || !strings.Contains(n.read("log.json"), `"level":"warning","msg":"open log file: `) {
				t.Errorf("create = %+v, log %s", r, n.read("log.json"))
			}
		})
	}
}

func TestVersion(t *testing.T) {
	n := newNode(t)
	if r := n.call(program, "--version"); !strings.HasPrefix(r.stdout, "NVIDIA Container Runtime version ") || r.path == "" {
		t.Errorf("--version = %+v", r)
	}
}

// The runtime must not start itself, though it may be installed as runc.
func TestTheLowLevelRuntimeIsAnotherProgram(t *testing.T) {
	n := newNode(t)
	self, err := os.Executable()
	assert.NilError(t, err)
	assert.NilError(t, os.Remove(n.path("bin/runc")))
	assert.NilError(t, os.Symlink(self, n.path("bin/runc")))
	if r := n.call(program, "state", "id"); r.path != "" || !strings.Contains(r.err, "find the low-level runtime") {
		t.Errorf("state = %+v", r)
	}
}
