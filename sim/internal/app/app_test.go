package app_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"gotest.tools/v3/assert"

	"outrigger.dev/sim/internal/app"
	"outrigger.dev/sim/internal/elfso"
	"outrigger.dev/sim/internal/state"
)

// asProgram makes the test binary behave as gpu-sim.
const asProgram = "GPU_SIM_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) == "" {
		m.Run()
		return
	}
	os.Exit(app.Main(os.Args, os.Stdout, os.Stderr))
}

// sim is a node in a new folder, and gpu-sim for it.
type sim struct {
	t          *testing.T
	root, libs string
}

func newSim(t *testing.T) sim {
	t.Helper()
	dir := t.TempDir()
	s := sim{t: t, root: filepath.Join(dir, "node"), libs: filepath.Join(dir, "lib")}
	assert.NilError(t, os.Mkdir(s.libs, 0o755))
	for _, name := range []string{"libnvidia-ml.so.1", "libcuda.so.1"} {
		data, err := elfso.New(name)
		assert.NilError(t, err)
		assert.NilError(t, os.WriteFile(filepath.Join(s.libs, name), data, 0o755))
	}
	return s
}

// command prepares "gpu-sim NAME --root ROOT ARGS".
func (s sim) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	s.t.Helper()
	self, err := os.Executable()
	assert.NilError(s.t, err)
	cmd := exec.CommandContext(ctx, self, append([]string{name}, args...)...)
	// The race detector would wait a second at the end of each process.
	cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0", asProgram+"=1", "GPU_SIM_ROOT="+s.root, "GPU_SIM_LIB_DIR="+s.libs)
	return cmd
}

// run runs gpu-sim and returns what it prints and its exit code.
func (s sim) run(name string, args ...string) (stdout, stderr string, code int) {
	s.t.Helper()
	var out, errs bytes.Buffer
	cmd := s.command(s.t.Context(), name, args...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		s.t.Fatal(err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// must runs gpu-sim, which has to succeed, and returns what it prints.
func (s sim) must(name string, args ...string) string {
	s.t.Helper()
	stdout, stderr, code := s.run(name, args...)
	if code != 0 {
		s.t.Fatalf("gpu-sim %s %v: exit code %d: %s%s", name, args, code, stdout, stderr)
	}
	return stdout
}

func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("making device nodes (mknod) and mount namespaces needs root")
	}
}

func (s sim) show() state.Snapshot {
	s.t.Helper()
	var snap state.Snapshot
	assert.NilError(s.t, json.Unmarshal([]byte(s.must("show", "--json")), &snap))
	return snap
}

func TestCommandsChangeTheNode(t *testing.T) {
	needRoot(t)
	s := newSim(t)
	s.must("create", "--gpus", "2", "--model", "h100-80")
	first := s.show().GPUs[0]

	for name, ref := range map[string]string{"index": "0", "UUID": first.UUID, "bus id": first.BusID, "NVML's bus id": "0000" + strings.ToUpper(first.BusID)} {
		if out := s.must("xid", ref, "48"); !strings.Contains(out, first.UUID) {
			t.Errorf("a GPU by its %s: got %q, want the one with %s", name, out, first.UUID)
		}
	}
	if got := s.show().Events; got != 4 {
		t.Errorf("got %d events after four XIDs", got)
	}
	s.must("lose", "1")
	if got := s.show().GPUs[1].Lost; got != state.LostHandle {
		t.Errorf("lost: got %q", got)
	}
	s.must("heal", "1")
	if got := s.show().GPUs[1].Lost; got != "" {
		t.Errorf("healed: got %q", got)
	}
	s.must("set", "latency=10us", "0.temperature=85", first.BusID+".numa-node=-1", "nvmlDeviceGetName.return=999")
	snap := s.show()
	if g := snap.GPUs[0]; snap.Latency.String() != "10µs" || g.Temperature != 85 || g.NUMANode != -1 || snap.Forced["nvmlDeviceGetName"] != 999 {
		t.Errorf("after set: %+v", snap)
	}
	s.must("plug", "--model", "h100-80", "--uuid", "GPU-new")
	if got := s.show().GPUs; len(got) != 3 || got[2].UUID != "GPU-new" {
		t.Errorf("after plug: %+v", got)
	}
	s.must("unplug", "GPU-new")
	s.must("set", "driver=off")
	if snap := s.show(); len(snap.GPUs) != 2 || snap.Driver.Loaded {
		t.Errorf("after unplug and driver=off: %+v", snap)
	}
	if out := s.must("calls", "--reset"); out != "  0  in all\n" {
		t.Errorf("calls: got %q", out)
	}
	s.must("delete")
	if _, err := os.Stat(s.root); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after delete: %v", err)
	}
}

// Each mistake is answered by one line that names what is wrong.
func TestMistakes(t *testing.T) {
	needRoot(t)
	s := newSim(t)
	s.must("create", "--gpus", "1")
	before := s.must("show", "--json")
	cases := map[string]struct {
		args []string
		want string
	}{
		"create where a node is":     {[]string{"create"}, "gpu-sim delete --root " + s.root},
		"too many GPUs":              {[]string{"create", "--root", s.root + "2", "--gpus", "17"}, `invalid value "17": must be 0 to 16`},
		"less than no GPU":           {[]string{"create", "--root", s.root + "2", "--gpus", "-1"}, `must be 0 to 16`},
		"unknown model":              {[]string{"create", "--root", s.root + "2", "--model", "g80"}, `flag --model (environment variable GPU_SIM_MODEL): model "g80" is unknown: want one of a10, a100-40, `},
		"unknown driver state":       {[]string{"create", "--root", s.root + "2", "--driver", "maybe"}, `flag --driver (environment variable GPU_SIM_DRIVER): invalid value "maybe": must be on or off`},
		"libraries not built":        {[]string{"create", "--root", s.root + "2", "--lib-dir", "/nowhere"}, "make sim"},
		"no node":                    {[]string{"show", "--root", s.root + "2"}, "gpu-sim create --root " + s.root + "2"},
		"delete what is no node":     {[]string{"delete", "--root", filepath.Dir(s.root)}, "no simulated node"},
		"unknown command":            {[]string{"shwo"}, `unknown command "shwo"`},
		"unknown flag":               {[]string{"show", "--jsno"}, "-jsno"},
		"unknown flag of gpu-sim":    {[]string{"--jsno"}, `see 'gpu-sim --help'`},
		"create without a folder":    {[]string{"create", "--root", ""}, "--root"},
		"unknown GPU":                {[]string{"lose", "7"}, `GPU "7": no such GPU; there are 1: 0 (GPU-`},
		"unknown way to be lost":     {[]string{"lose", "--how", "well", "0"}, `want "handle" or "calls"`},
		"code that is no number":     {[]string{"xid", "0", "bad"}, "want a number such as 79"},
		"too few arguments":          {[]string{"xid", "0"}, "usage: gpu-sim xid [options] GPU CODE"},
		"too many arguments":         {[]string{"heal", "0", "1"}, "usage: gpu-sim heal [options] GPU"},
		"setting without value":      {[]string{"set", "latency"}, "want KEY=VALUE"},
		"unknown setting":            {[]string{"set", "colour=red"}, "unknown key"},
		"unknown field":              {[]string{"set", "0.colour=1"}, "want one of bar1-used"},
		"unknown symbol":             {[]string{"set", "nvmlFoo.return=1"}, "unknown symbol"},
		"second setting is wrong":    {[]string{"set", "latency=1ms", "driver=maybe"}, `want "on" or "off"`},
		"nothing to execute":         {[]string{"exec"}, "usage: gpu-sim exec [options] -- COMMAND"},
		"command that is not there":  {[]string{"exec", "--", "no-such-command"}, "no-such-command"},
		"driver root not absolute":   {[]string{"exec", "--driver-root", "x", "--", "true"}, "not an absolute path"},
		"mount outside of namespace": {[]string{"mount"}, "gpu-sim exec -- COMMAND"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := sim{t, s.root, s.libs}
			stdout, stderr, code := s.run(tc.args[0], tc.args[1:]...)
			if code != 1 || stdout != "" || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, tc.want) {
				t.Errorf("got exit code %d, output %q, error %q; want 1, none and one line with %q", code, stdout, stderr, tc.want)
			}
			if after := s.must("show", "--json"); after != before {
				t.Errorf("the node changed from %s to %s", before, after)
			}
			if left, err := filepath.Glob(filepath.Join(filepath.Dir(s.root), "*node*2*")); err != nil || len(left) > 0 {
				t.Errorf("left behind: %v %v", left, err)
			}
		})
	}
}

// An error names the missing permission, and the node stays as it was.
func TestUnprivilegedUsersChangeNothing(t *testing.T) {
	needRoot(t)
	s := newSim(t)
	s.must("create", "--gpus", "1")
	before := s.must("show", "--json")
	for _, dir := range []string{filepath.Dir(s.root), filepath.Dir(filepath.Dir(s.root))} {
		assert.NilError(t, os.Chmod(dir, 0o755))
	}
	for name, args := range map[string][]string{
		"delete":     {"delete"},
		"set driver": {"set", "driver=off"},
		"plug":       {"plug"},
		"load":       {"load", "0", "50"},
		"exec":       {"exec", "--", "true"},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := s.command(t.Context(), args[0], args[1:]...)
			cmd.Path = "/proc/self/exe"
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
			out, err := cmd.CombinedOutput()
			if err == nil || strings.Count(string(out), "\n") != 1 || !strings.Contains(string(out), "run as root") {
				t.Errorf("got %q (%v), want one line that names the fix", out, err)
			}
			if after := s.must("show", "--json"); after != before {
				t.Errorf("the node changed from %s to %s", before, after)
			}
		})
	}
}
