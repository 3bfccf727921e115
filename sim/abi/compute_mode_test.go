package abi_test

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"outrigger.dev/sim/internal/state"
)

const (
	cudaHeld        = "held: 0 0"
	cudaUnavailable = "held: 46 201" // no context: CUDA_ERROR_DEVICE_UNAVAILABLE
)

// holder is a CUDA program that holds a context and memory until it is stopped.
type holder struct {
	*exec.Cmd
	stdin io.Closer
	lines *bufio.Scanner
	// says is its report, without the free memory.
	says string
}

// hold starts a CUDA program, and returns after it has made its context, or has failed to.
func hold(t *testing.T, cmd *exec.Cmd) holder {
	t.Helper()
	stdin, err := cmd.StdinPipe()
	mustDo(t, err)
	stdout, err := cmd.StdoutPipe()
	mustDo(t, err)
	mustDo(t, cmd.Start())
	t.Cleanup(func() { stdin.Close() })
	lines := bufio.NewScanner(stdout)
	for lines.Scan() && !strings.HasPrefix(lines.Text(), "held") {
	}
	return holder{cmd, stdin, lines, lines.Text()[:strings.LastIndex(lines.Text(), " ")]}
}

func (h holder) stop(t *testing.T) {
	t.Helper()
	mustDo(t, h.stdin.Close())
	mustDo(t, h.Wait())
}

// nvml.h: in exclusive mode, one process may use the device; in prohibited mode, none may.
func TestComputeModeAdmitsProcesses(t *testing.T) {
	program := reachable(t)
	for who, mode := range map[string]os.FileMode{"that are listed": 0o666, "that can only read the state": 0o644} {
		t.Run("processes "+who, func(t *testing.T) {
			m := newMachine(t, state.NewSpec("l4", 1))
			d := device(t, m.session(t), 0)
			program := func() *exec.Cmd { return cudaCommand(t, m, program, "hold") }
			program() // makes the folders readable
			mustDo(t, os.Chmod(m.Path(), mode))
			first := hold(t, program())
			mustEqual(t, "the first process", cudaHeld, first.says)

			mustBe(t, "nvmlDeviceSetComputeMode", d.SetComputeMode(nvml.COMPUTEMODE_EXCLUSIVE_PROCESS), nvml.SUCCESS)
			second := hold(t, program())
			mustEqual(t, "a second process", cudaUnavailable, second.says)
			first.stop(t)
			third := hold(t, program())
			mustEqual(t, "a process after the first", cudaHeld, third.says)
			third.stop(t)

			mustBe(t, "nvmlDeviceSetComputeMode", d.SetComputeMode(nvml.COMPUTEMODE_PROHIBITED), nvml.SUCCESS)
			mustEqual(t, "a process in prohibited mode", cudaUnavailable, hold(t, program()).says)
			mustBe(t, "nvmlDeviceSetComputeMode", d.SetComputeMode(nvml.COMPUTEMODE_DEFAULT), nvml.SUCCESS)
			mustEqual(t, "a process", cudaHeld, hold(t, program()).says)
			mustEqual(t, "another process", cudaHeld, hold(t, program()).says)
		})
	}
}

func TestExclusiveModeCountsSimulatedProcesses(t *testing.T) {
	program := reachable(t)
	m := newMachine(t, state.NewSpec("l4", 1))
	mustDo(t, m.SetField(0, "compute-mode", "exclusive-process"))
	mustDo(t, m.PutProcess(0, state.Process{PID: 4711, GPUInstance: state.WholeGPU, ComputeInstance: state.WholeGPU}))
	mustEqual(t, "a process", cudaUnavailable, hold(t, cudaCommand(t, m, program, "hold")).says)
}

// Of processes that start at once, one gets the GPU.
func TestExclusiveModeHasOneWinner(t *testing.T) {
	program := reachable(t)
	m := newMachine(t, state.NewSpec("l4", 1))
	mustDo(t, m.SetField(0, "compute-mode", "exclusive-process"))
	const many = 8
	outputs := make([]io.Reader, many)
	for i := range many {
		cmd := cudaCommand(t, m, program, "hold")
		stdin, err := cmd.StdinPipe()
		mustDo(t, err)
		t.Cleanup(func() { stdin.Close() })
		outputs[i], err = cmd.StdoutPipe()
		mustDo(t, err)
		mustDo(t, cmd.Start())
	}
	winners := 0
	for _, out := range outputs {
		for lines := bufio.NewScanner(out); lines.Scan() && !strings.HasPrefix(lines.Text(), "held: 46"); {
			if strings.HasPrefix(lines.Text(), cudaHeld) {
				winners++
				break
			}
		}
	}
	mustEqual(t, "processes that use the GPU", 1, winners)
}

// The mode is of the MIG device, never of a GPU in MIG mode.
func TestComputeModeOfMIGDevices(t *testing.T) {
	program := reachable(t)
	m := divided(t, "a100-40")
	one, _ := m.carve(t, 0, "1g.5gb")
	m.carve(t, 0, "1g.5gb")
	m.allow(t, 0, one)
	d := device(t, m.session(t), 0)
	mustBe(t, "nvmlDeviceSetComputeMode of the GPU", d.SetComputeMode(nvml.COMPUTEMODE_PROHIBITED), nvml.ERROR_INVALID_ARGUMENT)
	for _, mig := range migDevices(t, d) {
		mode, ret := mig.GetComputeMode()
		mustBe(t, "nvmlDeviceGetComputeMode", ret, nvml.SUCCESS)
		mustEqual(t, "compute mode", nvml.COMPUTEMODE_DEFAULT, mode)
		if uuidOf(t, mig) == one {
			mustBe(t, "nvmlDeviceSetComputeMode", mig.SetComputeMode(nvml.COMPUTEMODE_EXCLUSIVE_PROCESS), nvml.SUCCESS)
			mode, _ = mig.GetComputeMode()
			mustEqual(t, "compute mode", nvml.COMPUTEMODE_EXCLUSIVE_PROCESS, mode)
		}
	}
	first := hold(t, cudaCommand(t, m, program, "hold"))
	mustEqual(t, "the first process", cudaHeld, first.says)
	mustEqual(t, "a second process", cudaUnavailable, hold(t, cudaCommand(t, m, program, "hold")).says)
}

func TestComputeModeIsChecked(t *testing.T) {
	m := newMachine(t, state.NewSpec("l4", 1))
	d := device(t, m.session(t), 0)
	// Support for one thread was removed.
	for _, mode := range []nvml.ComputeMode{nvml.COMPUTEMODE_EXCLUSIVE_THREAD, nvml.COMPUTEMODE_COUNT} {
		mustBe(t, "nvmlDeviceSetComputeMode", d.SetComputeMode(mode), nvml.ERROR_INVALID_ARGUMENT)
	}
}
