package abi_test

import (
	"errors"
	"os/exec"
	"syscall"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"outrigger.dev/sim/internal/state"
)

func TestOneCallFails(t *testing.T) {
	m := newMachine(t, state.NewSpec("l4", 1))
	d := device(t, m.session(t), 0)
	name := func(want nvml.Return) {
		t.Helper()
		_, ret := d.GetName()
		mustBe(t, "nvmlDeviceGetName", ret, want)
	}
	mustDo(t, m.SetFault(state.Fault{Symbol: "nvmlDeviceGetName", Return: int(nvml.ERROR_IN_USE), Call: 2}))
	name(nvml.SUCCESS)
	_, ret := d.GetUUID() // another symbol
	mustBe(t, "nvmlDeviceGetUUID", ret, nvml.SUCCESS)
	name(nvml.ERROR_IN_USE)
	name(nvml.SUCCESS)
	mustDo(t, m.SetFault(state.Fault{Symbol: "any", Return: int(nvml.ERROR_GPU_IS_LOST), Call: 2}))
	name(nvml.SUCCESS)
	_, ret = d.GetUUID()
	mustBe(t, "nvmlDeviceGetUUID", ret, nvml.ERROR_GPU_IS_LOST)
	name(nvml.SUCCESS)
}

func TestACallKillsItsProcess(t *testing.T) {
	m := newMachine(t, state.NewSpec("l4", 1))
	mustDo(t, m.SetFault(state.Fault{Symbol: "nvmlDeviceGetCount_v2", Kill: true, Call: 1}))
	cmd := process(t, "observe")
	cmd.Env = append(cmd.Env, libraryKey+"="+m.library)
	err := cmd.Run()
	exit := (*exec.ExitError)(nil)
	if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Errorf("the process ended with %v, want SIGKILL", err)
	}
	if f := m.Show().Fault; f != nil {
		t.Errorf("the fault is still there: %s", f)
	}
}
