package abi_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"outrigger.dev/sim/internal/state"
)

// mixed makes a machine with a whole GPU, and two that are divided: the second
// into 1g.5gb and 3g.20gb, the third into 2g.10gb. It returns the UUIDs.
func mixed(t *testing.T) (m *machine, small, large, other string) {
	t.Helper()
	m = newMachine(t, state.NewSpec("a100-40", 3))
	m.divide(t, 1)
	m.divide(t, 2)
	large, _ = m.carve(t, 1, "3g.20gb")
	small, _ = m.carve(t, 1, "1g.5gb")
	other, _ = m.carve(t, 2, "2g.10gb")
	return m, small, large, other
}

// cuda runs testdata/cudamig.c as nobody, like a program in a container, and
// returns what cuInit answered and the devices.
func cuda(t *testing.T, m *machine, program string) []string {
	t.Helper()
	out, err := cudaCommand(t, m, program).Output()
	mustDo(t, err)
	return strings.Split(strings.TrimSpace(string(out)), "\n")
}

func cudaCommand(t *testing.T, m *machine, program string, args ...string) *exec.Cmd {
	t.Helper()
	for _, dir := range []string{filepath.Dir(program), filepath.Dir(m.Path()), m.dev} {
		openToAll(t, dir)
	}
	// Not the test's context: that ends before the clean-up that waits.
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, program, args...)
	unprivileged(cmd)
	return cmd
}

// reachable compiles the program with a copy of the library that others can read.
func reachable(t *testing.T) string {
	t.Helper()
	library := filepath.Join(t.TempDir(), "libcuda.so.1")
	content, err := os.ReadFile(filepath.Join(libraries(t), "libcuda.so.1"))
	mustDo(t, err)
	mustDo(t, os.WriteFile(library, content, 0o755))
	openToAll(t, filepath.Dir(library))
	return compile(t, "cudamig.c", library, "-Wl,-rpath,"+filepath.Dir(library))
}

// seen is the line that the program prints of a device.
func seen(name string, mib, sms int, uuid string) string {
	digits, _, _ := strings.Cut(uuid[len("GPU-"):], "-")
	return fmt.Sprintf("%s, %d MiB, %d SMs, %s", name, mib, sms, digits)
}

const (
	cudaSuccess  = "0"
	cudaNoDevice = "100"
	a100         = "NVIDIA A100-SXM4-40GB"
)

// MIG User Guide, "CUDA Device Enumeration": a compute instance with its GPU
// instance is one CUDA device; a process enumerates a single one, and then no
// GPU that is not divided; CUDA_VISIBLE_DEVICES names it by UUID, or as drivers
// before 470 do. "Device Nodes and Capabilities": it needs the nodes of both
// capabilities. That an index counts the instances of a GPU as one, and that
// the UUID of a GPU means its first, is not verified.
func TestCUDASeesTheMIGDeviceThatItMayUse(t *testing.T) {
	program := reachable(t)
	m, small, large, other := mixed(t)
	whole := seen(a100, 40960-425, 108, m.Show().GPUs[0].UUID)
	smallLine := seen(a100+" MIG 1g.5gb", 4864, 14, small)
	largeLine := seen(a100+" MIG 3g.20gb", 19968, 42, large)
	otherLine := seen(a100+" MIG 2g.10gb", 9856, 28, other)
	second, err := m.MIG(1)
	mustDo(t, err)
	byNumbers := fmt.Sprintf("MIG-%s/%d/0", m.Show().GPUs[1].UUID, gpuInstanceOf(t, second, small))
	tests := map[string]struct {
		may     []string // the MIG devices whose nodes are there
		visible string   // CUDA_VISIBLE_DEVICES, "-" for none
		want    []string
	}{
		"of divided GPUs without capabilities none":      {nil, "-", []string{cudaSuccess, whole}},
		"the one that it was given, and no GPU":          {[]string{small}, "-", []string{cudaSuccess, smallLine}},
		"of several the first":                           {[]string{small, large, other}, "-", []string{cudaSuccess, largeLine}},
		"the one that is named":                          {[]string{small, large, other}, other, []string{cudaSuccess, otherLine}},
		"of those that are named the first":              {[]string{small, large, other}, small + "," + other, []string{cudaSuccess, smallLine}},
		"one by the beginning of its UUID":               {[]string{small, large, other}, other[:12], []string{cudaSuccess, otherLine}},
		"one by its numbers":                             {[]string{small, large, other}, byNumbers, []string{cudaSuccess, smallLine}},
		"the whole GPU, if that is named":                {[]string{small}, m.Show().GPUs[0].UUID, []string{cudaSuccess, whole}},
		"of a GPU that is named the first instance":      {[]string{small, large, other}, m.Show().GPUs[2].UUID, []string{cudaSuccess, otherLine}},
		"by index a GPU with its instances counts once":  {[]string{small, large, other}, "2", []string{cudaSuccess, otherLine}},
		"nothing where one is named that it may not use": {[]string{small}, large, []string{cudaNoDevice}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			m.withoutCapabilities(t)
			for _, uuid := range test.may {
				slot := state.Slot(1)
				if uuid == other {
					slot = 2
				}
				m.allow(t, slot, uuid)
			}
			if test.visible != "-" {
				t.Setenv("CUDA_VISIBLE_DEVICES", test.visible)
			}
			mustEqual(t, "cuInit and devices", test.want, cuda(t, m, program))
		})
	}
}

func gpuInstanceOf(t *testing.T, mig state.MIG, uuid string) int {
	t.Helper()
	for _, gi := range mig.GPUInstances {
		for _, ci := range gi.ComputeInstances {
			if ci.UUID == uuid {
				return gi.ID
			}
		}
	}
	t.Fatalf("there is no MIG device %s", uuid)
	return 0
}

func TestCUDASeesNoDividedGPUWithoutCapabilities(t *testing.T) {
	program := reachable(t)
	m := newMachine(t, state.NewSpec("a100-40", 1))
	m.divide(t, 0)
	mustEqual(t, "cuInit without instances", []string{cudaNoDevice}, cuda(t, m, program))
	uuid, _ := m.carve(t, 0, "1g.5gb")
	mustEqual(t, "cuInit without capabilities", []string{cudaNoDevice}, cuda(t, m, program))
	m.allow(t, 0, uuid)
	mustEqual(t, "cuInit with them", []string{cudaSuccess, seen(a100+" MIG 1g.5gb", 4864, 14, uuid)}, cuda(t, m, program))
	m.removeNode(t, "nvidia0")
	mustEqual(t, "cuInit without the node of the GPU", []string{cudaNoDevice}, cuda(t, m, program))
}

// nvml.h: a CUDA application on an instance keeps it from being destroyed, is
// listed with the numbers of the instance, and its memory counts as used.
func TestCUDAProgramKeepsItsInstance(t *testing.T) {
	program := reachable(t)
	m := divided(t, "a100-40")
	d := device(t, m.session(t), 0)
	gi := instance(t, d, nvml.GPU_INSTANCE_PROFILE_1_SLICE)
	ci := compute(t, gi, nvml.COMPUTE_INSTANCE_PROFILE_1_SLICE)
	mig := migDevices(t, d)[0]
	m.allow(t, 0, uuidOf(t, mig))
	other := state.Process{PID: 4711, GPUInstance: mustID(t, mig), MemoryBytes: 1 << 30}
	mustDo(t, m.PutProcess(0, other))

	cmd := cudaCommand(t, m, program, "hold")
	mustDo(t, os.Chmod(m.Path(), 0o666))
	stdin, err := cmd.StdinPipe()
	mustDo(t, err)
	stdout, err := cmd.StdoutPipe()
	mustDo(t, err)
	mustDo(t, cmd.Start())
	lines := bufio.NewScanner(stdout)
	for lines.Scan() && !strings.HasPrefix(lines.Text(), "held") {
	}
	// 4864 MiB of the instance, less what the other and the program itself have.
	mustEqual(t, "the program", "held: 0 0 3839", lines.Text())

	mustDo(t, m.DropProcess(0, other.PID))
	processes, ret := mig.GetComputeRunningProcesses()
	mustBe(t, "nvmlDeviceGetComputeRunningProcesses", ret, nvml.SUCCESS)
	want := []nvml.ProcessInfo{{Pid: uint32(cmd.Process.Pid), UsedGpuMemory: 1 << 20, GpuInstanceId: uint32(mustID(t, mig))}}
	mustEqual(t, "processes", want, processes)
	memory, _ := mig.GetMemoryInfo_v2()
	mustEqual(t, "used memory", uint64(1<<20), memory.Used)
	mustBe(t, "nvmlComputeInstanceDestroy while it runs", ci.Destroy(), nvml.ERROR_IN_USE)

	mustDo(t, stdin.Close())
	for _, want := range []string{"synchronized: 0", "destroyed: 0"} {
		lines.Scan()
		mustEqual(t, "the program", want, lines.Text())
	}
	mustDo(t, cmd.Wait())
	mustBe(t, "nvmlComputeInstanceDestroy afterwards", ci.Destroy(), nvml.SUCCESS)
	mustBe(t, "nvmlGpuInstanceDestroy", gi.Destroy(), nvml.SUCCESS)
}

// What a program that is killed leaves behind keeps nothing.
func TestKilledCUDAProgramIsNotListed(t *testing.T) {
	program := reachable(t)
	m := newMachine(t, state.NewSpec("l4", 1))
	d := device(t, m.session(t), 0)
	cmd := cudaCommand(t, m, program, "hold")
	mustDo(t, os.Chmod(m.Path(), 0o666))
	stdin, err := cmd.StdinPipe()
	mustDo(t, err)
	t.Cleanup(func() { stdin.Close() })
	stdout, err := cmd.StdoutPipe()
	mustDo(t, err)
	mustDo(t, cmd.Start())
	lines := bufio.NewScanner(stdout)
	for lines.Scan() && !strings.HasPrefix(lines.Text(), "held") {
	}
	listed := func() int {
		processes, ret := d.GetComputeRunningProcesses()
		mustBe(t, "nvmlDeviceGetComputeRunningProcesses", ret, nvml.SUCCESS)
		return len(processes)
	}
	mustEqual(t, "processes while it runs", 1, listed())
	mustDo(t, cmd.Process.Kill())
	if err := cmd.Wait(); err == nil {
		t.Error("the program ended by itself")
	}
	mustEqual(t, "processes after its end", 0, listed())
}
