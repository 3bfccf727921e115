package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const script = "../../gpu/run.sh"

// binaries returns the folder of the built programs. It skips the test if a program
// for the hardware check or the simulated node is missing.
func binaries(t *testing.T) string {
	t.Helper()
	bin := os.Getenv("OUTRIGGER_BIN")
	if bin == "" {
		bin = "../../../bin"
	}
	bin, err := filepath.Abs(bin)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"device-plugin", "fake-kubelet", "feature-discovery", "vectoradd", "gpu-sim", "lib/libcuda.so.1", "lib/libnvidia-ml.so.1"} {
		if _, err := os.Stat(filepath.Join(bin, name)); err != nil {
			t.Skipf("bin/%s is missing: make build", name)
		}
	}
	if os.Getuid() != 0 {
		t.Skip("this needs root: a simulated node has device nodes and a mount namespace")
	}
	return bin
}

// check runs the hardware check on a simulated node with two GPUs, after it ran the
// gpu-sim command prepare on the node.
func check(t *testing.T, prepare ...string) (string, error) {
	t.Helper()
	bin := binaries(t)
	root := filepath.Join(t.TempDir(), "node")
	sim := func(args ...string) (string, error) {
		cmd := exec.CommandContext(context.WithoutCancel(t.Context()), filepath.Join(bin, "gpu-sim"), args...)
		cmd.Env = append(os.Environ(), "BIN="+bin, "GPU_SIM_ROOT="+root)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	if out, err := sim("create", "--gpus", "2"); err != nil {
		t.Fatalf("gpu-sim create: %v\n%s", err, out)
	}
	t.Cleanup(func() {
		if out, err := sim("delete"); err != nil {
			t.Errorf("gpu-sim delete: %v\n%s", err, out)
		}
	})
	if len(prepare) > 0 {
		if out, err := sim(prepare...); err != nil {
			t.Fatalf("gpu-sim %v: %v\n%s", prepare, err, out)
		}
	}
	return sim("exec", "--", script)
}

func TestTheHardwareCheckPassesOnAHealthyNode(t *testing.T) {
	out, err := check(t)
	if err != nil || !strings.Contains(out, " 0 failed") {
		t.Errorf("%v\n%s", err, out)
	}
	for _, want := range []string{
		"PASS snapshot: UUIDs", "PASS labels: gpu.product", "PASS plugin: registered again after the kubelet's restart",
		"PASS cdi: every GPU has its own node", "PASS vectoradd: GPU 1",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in:\n%s", want, out)
		}
	}
}

func TestTheHardwareCheckFindsAGPUThatDoesNotCompute(t *testing.T) {
	out, err := check(t, "lose", "1")
	if err == nil {
		t.Errorf("the check passed with a lost GPU:\n%s", out)
	}
}

func TestTheHardwareCheckIsSkippedWithoutAGPU(t *testing.T) {
	if found, _ := filepath.Glob("/dev/nvidia[0-9]*"); len(found) > 0 {
		t.Skip("this machine has a GPU: run test/gpu/run.sh")
	}
	out, err := exec.CommandContext(t.Context(), script).CombinedOutput()
	if err != nil || string(out) != "skipped: no NVIDIA GPU\n" {
		t.Errorf("%v\n%s", err, out)
	}
}
