package app_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gotest.tools/v3/assert"

	"outrigger.dev/sim/internal/arch"
)

// built is the folder of the simulator's libraries.
func built(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("../../../bin/lib")
	assert.NilError(t, err)
	if _, err := os.Stat(filepath.Join(dir, "libnvidia-ml.so.1")); err != nil {
		t.Skip("the simulator's libraries are not built: run \"make sim\"")
	}
	return dir
}

func TestNvidiaSMIListsThroughNVML(t *testing.T) {
	needRoot(t)
	s := newSim(t)
	s.libs = built(t)
	s.must("create", "--gpus", "2", "--model", "l4")
	gpus := s.show().GPUs
	for name, args := range map[string][]string{"installed": nil, "brought by a container": {"--driver-root", filepath.Join(t.TempDir(), "driver")}} {
		t.Run(name, func(t *testing.T) {
			s := sim{t, s.root, s.libs}
			sh := s.shell(args...)
			if len(args) > 0 {
				sh.run(fmt.Sprintf("export PATH=%[1]s/usr/bin:$PATH LD_LIBRARY_PATH=%[1]s/%[2]s", args[1], arch.Libraries))
			}
			want := fmt.Sprintf("GPU 0: NVIDIA L4 (UUID: %s)\nGPU 1: NVIDIA L4 (UUID: %s)", gpus[0].UUID, gpus[1].UUID)
			if got := sh.run("nvidia-smi -L"); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
			want = fmt.Sprintf("index, uuid\n0, %s\n1, %s", gpus[0].UUID, gpus[1].UUID)
			if got := sh.run("nvidia-smi --query-gpu=index,uuid --format=csv"); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
	t.Run("calls are counted", func(t *testing.T) {
		if got := s.must("calls"); !strings.Contains(got, "nvmlInit_v2\n") {
			t.Errorf("got %s", got)
		}
	})
	t.Run("without the driver", func(t *testing.T) {
		s.must("set", "driver=off")
		stdout, stderr, code := s.run("exec", "--", "nvidia-smi", "-L")
		if code != 1 || stdout != "" || !strings.Contains(stderr, "nvmlInit_v2: Driver Not Loaded") {
			t.Errorf("got exit code %d, output %q, error %q", code, stdout, stderr)
		}
		s.must("set", "driver=on")
	})
	t.Run("with a GPU lost", func(t *testing.T) {
		s.must("lose", "0")
		stdout, stderr, code := s.run("exec", "--", "nvidia-smi", "-L")
		if code != 1 || strings.Count(stdout, "\n") != 1 || !strings.Contains(stdout, gpus[1].UUID) || !strings.Contains(stderr, "GPU 0: ") {
			t.Errorf("got exit code %d, output %q, error %q", code, stdout, stderr)
		}
	})
}

// Everybody types nvidia-smi first.
func TestNvidiaSMIShowsTheNode(t *testing.T) {
	needRoot(t)
	s := newSim(t)
	s.libs = built(t)
	s.must("create", "--gpus", "2", "--model", "h100-80", "--driver-version", "570.86.15")
	s.must("mig", "mode", "1", "on")
	s.must("mig", "create", "1", "3g.40gb")
	s.must("proc", "add", "--memory", "1024", "0")
	s.must("set", "0.temperature=61")
	gpus := s.show().GPUs
	run := func(args ...string) string {
		t.Helper()
		return s.must("exec", append([]string{"--", "nvidia-smi"}, args...)...)
	}
	contains := func(text string, parts ...string) {
		t.Helper()
		for _, part := range parts {
			if !strings.Contains(text, part) {
				t.Errorf("%q is missing in\n%s", part, text)
			}
		}
	}
	contains(run(), "Driver Version: 570.86.15", "|   0  NVIDIA H100 80GB HBM3", " 61C ", strings.ToUpper(gpus[0].BusID[:8])+gpus[0].BusID[8:],
		"1024MiB / ", " Enabled |", "| MIG devices:", "40448MiB", "|    0   N/A  N/A ", " 1024MiB |")
	contains(run("-q"), "Attached GPUs                             : 2\n", "    GPU UUID                              : "+gpus[0].UUID+"\n",
		"    Product Architecture                  : Hopper\n", "        GPU Current Temp                  : 61 C\n",
		"        MIG UUID                          : "+gpus[1].MIG.GPUInstances[0].ComputeInstances[0].UUID+"\n",
		"            Used GPU Memory               : 1024 MiB\n")
	t.Run("with a GPU lost", func(t *testing.T) {
		s.must("lose", "0")
		stdout, stderr, code := s.run("exec", "--", "nvidia-smi")
		if code != 1 || strings.Contains(stdout, "|   0  NVIDIA") || !strings.Contains(stdout, "|   1  NVIDIA") || !strings.Contains(stderr, "GPU 0: ") {
			t.Errorf("got exit code %d, error %q, output\n%s", code, stderr, stdout)
		}
	})
}

// The MIG User Guide shows the form in "Getting Started with MIG".
func TestNvidiaSMIListsMIGDevices(t *testing.T) {
	needRoot(t)
	s := newSim(t)
	s.libs = built(t)
	s.must("create", "--gpus", "1", "--model", "h100-80")
	s.must("mig", "mode", "0", "on")
	s.must("mig", "create", "0", "3g.40gb", "1c.2g.20gb")
	gpu := s.show().GPUs[0]
	var uuids []string
	for _, gi := range gpu.MIG.GPUInstances {
		uuids = append(uuids, gi.ComputeInstances[0].UUID)
	}
	want := fmt.Sprintf("GPU 0: NVIDIA H100 80GB HBM3 (UUID: %s)\n"+
		"  MIG 3g.40gb     Device  0: (UUID: %s)\n"+
		"  MIG 1c.2g.20gb  Device  1: (UUID: %s)\n", gpu.UUID, uuids[0], uuids[1])
	if got, _, _ := s.run("exec", "--", "nvidia-smi", "-L"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestNvidiaSMIResets(t *testing.T) {
	needRoot(t)
	s := newSim(t)
	s.libs = built(t)
	s.must("create", "--gpus", "2", "--model", "a30")
	s.must("mig", "mode", "all", "on")
	gpus := s.show().GPUs
	s.must("proc", "add", "1")
	stdout, stderr, code := s.run("exec", "--", "nvidia-smi", "-r", "-i", gpus[0].BusID+","+gpus[1].BusID)
	if code != 1 || stdout != "" || !strings.Contains(stderr, "GPU "+gpus[1].BusID+": In use by another client") {
		t.Errorf("with a process: exit code %d, output %q, error %q", code, stdout, stderr)
	}
	if got := s.show().GPUs[0].Resets; got != 0 {
		t.Errorf("GPU 0 was reset %d times, though GPU 1 is in use", got)
	}
	if got, want := s.must("exec", "--", "nvidia-smi", "--gpu-reset", "--id=0000"+gpus[0].BusID), "GPU "+gpus[0].BusID+" was successfully reset.\nAll done.\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if now := s.show().GPUs; !now[0].MIG.Enabled || now[1].MIG.Enabled || now[0].Resets != 1 {
		t.Errorf("after a reset of GPU 0 the modes are %t and %t", now[0].MIG.Enabled, now[1].MIG.Enabled)
	}
}

// HGX A100: one GPU alone cannot be reset.
func TestNvidiaSMIResetsAFabricTogether(t *testing.T) {
	needRoot(t)
	s := newSim(t)
	s.libs = built(t)
	s.must("create", "--gpus", "2", "--model", "a100-80")
	if _, stderr, code := s.run("exec", "--", "nvidia-smi", "-r", "-i", "0"); code != 1 || !strings.Contains(stderr, "linked with it by NVSwitches") {
		t.Errorf("exit code %d, error %q", code, stderr)
	}
	s.must("exec", "--", "nvidia-smi", "-r", "-i", "0,1")
	for _, g := range s.show().GPUs {
		if g.Resets != 1 {
			t.Errorf("GPU %d was reset %d times, want once", g.Index, g.Resets)
		}
	}
}
