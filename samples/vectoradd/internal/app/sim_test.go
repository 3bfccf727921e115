package app_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// simulated is a simulated node.
type simulated struct {
	root string
	sim  string
	// library is the simulator's libcuda.
	library string
}

// simulate creates a node with two GPUs of a model. The environment makes it visible
// to this process.
func simulate(t *testing.T, model string) simulated {
	t.Helper()
	bin := os.Getenv("OUTRIGGER_BIN")
	if bin == "" {
		bin = "../../../../bin"
	}
	bin, err := filepath.Abs(bin)
	if err != nil {
		t.Fatal(err)
	}
	s := simulated{
		root:    filepath.Join(t.TempDir(), "node"),
		sim:     filepath.Join(bin, "gpu-sim"),
		library: filepath.Join(bin, "lib", "libcuda.so.1"),
	}
	for _, path := range []string{s.sim, s.library} {
		if _, err := os.Stat(path); err != nil {
			t.Skipf("%s is missing: make sim", path)
		}
	}
	if os.Getuid() != 0 {
		t.Skip("this needs root: a simulated node has device nodes")
	}
	s.call(t, "create", "--gpus", "2", "--model", model)
	t.Cleanup(func() { s.call(t, "delete") })
	t.Setenv("GPU_SIM_STATE", filepath.Join(s.root, "state"))
	t.Setenv("GPU_SIM_DEV", filepath.Join(s.root, "dev"))
	return s
}

// call runs a command of gpu-sim on the node and returns its output.
func (s simulated) call(t *testing.T, args ...string) string {
	t.Helper()
	// The test's context has ended when the cleanup deletes the node.
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), s.sim, args...)
	cmd.Env = append(os.Environ(), "GPU_SIM_ROOT="+s.root)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("gpu-sim %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// run runs vectoradd on the node.
func (s simulated) run(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	return run(t, append([]string{"--cuda-library", s.library, "--dev-root", s.root}, args...)...)
}

func TestOnASimulatedNode(t *testing.T) {
	s := simulate(t, "l4")
	code, list, stderr := s.run(t, "--list")
	if code != 0 || strings.Count(list, "NVIDIA L4 (UUID: GPU-") != 2 {
		t.Fatalf("--list: exit code %d: %s%s", code, list, stderr)
	}
	for _, device := range []string{"0", "1"} {
		code, stdout, stderr := s.run(t, "--device", device)
		if code != 0 || stderr != "" {
			t.Errorf("device %s: exit code %d, stderr %q", device, code, stderr)
		}
		if diff := cmp.Diff(passed, stdout); diff != "" {
			t.Errorf("device %s: stdout (-want +got):\n%s", device, diff)
		}
	}
	code, stdout, stderr := s.run(t, "--device", "2")
	if code != 1 || strings.Contains(stdout, "PASSED") || !strings.Contains(stderr, "only 2 visible") {
		t.Errorf("device 2: exit code %d: %s%s", code, stdout, stderr)
	}
}

func TestCopiesOnASimulatedNode(t *testing.T) {
	s := simulate(t, "h100-80")
	code, stdout, stderr := s.run(t, "--all-devices", "--copies")
	if code != 0 || strings.Count(stdout, "Test PASSED") != 2 || strings.Count(stdout, "(peer access)") != 2 {
		t.Errorf("exit code %d: %s%s", code, stdout, stderr)
	}
}

func TestWithoutADriverOnASimulatedNode(t *testing.T) {
	s := simulate(t, "l4")
	s.call(t, "set", "driver=off")
	code, stdout, stderr := s.run(t)
	if code != 1 || stdout != "" {
		t.Errorf("exit code %d, stdout %q", code, stdout)
	}
	for _, want := range []string{"cuInit", "(100)", "load the driver"} {
		if !strings.Contains(stderr, want) {
			t.Errorf("stderr lacks %q: %s", want, stderr)
		}
	}
}

var migUUID = regexp.MustCompile(`MIG-[0-9a-f-]+`)

func TestOnAMIGDevice(t *testing.T) {
	s := simulate(t, "h100-80")
	s.call(t, "mig", "mode", "1", "on")
	small := migUUID.FindString(s.call(t, "mig", "create", "1", "1g.10gb"))
	s.call(t, "mig", "create", "1", "3g.40gb")
	t.Setenv("CUDA_VISIBLE_DEVICES", small)
	code, list, stderr := s.run(t, "--list")
	if code != 0 || stderr != "" {
		t.Errorf("--list: exit code %d, stderr %q", code, stderr)
	}
	if diff := cmp.Diff("GPU 0: NVIDIA H100 80GB HBM3 MIG 1g.10gb (UUID: "+small+")\n", list); diff != "" {
		t.Errorf("--list (-want +got):\n%s", diff)
	}
	code, stdout, stderr := s.run(t)
	if code != 0 || stderr != "" {
		t.Errorf("exit code %d, stderr %q", code, stderr)
	}
	if diff := cmp.Diff(passed, stdout); diff != "" {
		t.Errorf("stdout (-want +got):\n%s", diff)
	}
}

// The device nodes of a simulated node answer as if there were no driver, also if the GPU is lost.
func TestALostGPUIsNamed(t *testing.T) {
	for _, how := range []string{"handle", "calls"} {
		t.Run(how, func(t *testing.T) {
			s := simulate(t, "l4")
			s.call(t, "lose", "--how", how, "0")
			s.call(t, "lose", "--how", how, "1")
			code, stdout, stderr := s.run(t)
			if code != 1 || stdout != "" || !strings.Contains(stderr, "GPU 0 is lost") || strings.Contains(stderr, "load the") {
				t.Errorf("exit code %d, stdout %q, stderr %q, want the lost GPU", code, stdout, stderr)
			}
		})
	}
}
