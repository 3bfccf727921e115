package abi_test

import (
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"outrigger.dev/sim/internal/state"
)

func wantMode(t *testing.T, d nvml.Device, when string, current, pending int) {
	t.Helper()
	gotCurrent, gotPending, ret := d.GetMigMode()
	mustBe(t, "nvmlDeviceGetMigMode", ret, nvml.SUCCESS)
	mustEqual(t, "current and pending mode "+when, []int{current, pending}, []int{gotCurrent, gotPending})
}

// MIG User Guide, "Deployment Considerations": "Setting MIG mode on the
// A100/A30 requires a GPU reset". nvml.h: "The pending MIG mode refers to the
// target mode following the next activation trigger", and activationStatus is
// RESET_REQUIRED where the reset is left to others.
func TestAmpereTakesAModeUpAtTheNextReset(t *testing.T) {
	needRoot(t)
	for _, model := range []string{"a100-40", "a100-80", "a30"} {
		t.Run(model, func(t *testing.T) {
			m := newMachine(t, state.NewSpec(model, 1))
			d := device(t, m.session(t), 0)
			wantMode(t, d, "at first", nvml.DEVICE_MIG_DISABLE, nvml.DEVICE_MIG_DISABLE)
			activation, ret := d.SetMigMode(nvml.DEVICE_MIG_ENABLE)
			mustBe(t, "nvmlDeviceSetMigMode", ret, nvml.SUCCESS)
			mustBe(t, "the activation", activation, nvml.ERROR_RESET_REQUIRED)
			wantMode(t, d, "before the reset", nvml.DEVICE_MIG_DISABLE, nvml.DEVICE_MIG_ENABLE)

			mustDo(t, m.BeginReset(0))
			_, _, ret = d.GetMigMode()
			mustBe(t, "nvmlDeviceGetMigMode during the reset", ret, nvml.ERROR_GPU_IS_LOST)
			mustDo(t, m.EndReset(0))
			wantMode(t, d, "after the reset", nvml.DEVICE_MIG_ENABLE, nvml.DEVICE_MIG_ENABLE)
		})
	}
}

// MIG User Guide, "Deployment Considerations": from Hopper on "enabling MIG
// mode no longer requires a GPU reset". A field of NVML reports which GPUs are so.
func TestHopperAndBlackwellTakeAModeUpAtOnce(t *testing.T) {
	needRoot(t)
	for _, model := range []string{"h100-80", "h200", "b200"} {
		t.Run(model, func(t *testing.T) {
			m := newMachine(t, state.NewSpec(model, 1))
			d := device(t, m.session(t), 0)
			mustEqual(t, "NVML_FI_DEV_IS_RESETLESS_MIG_SUPPORTED", uint32(1), fieldValue(t, d, nvml.FI_DEV_IS_RESETLESS_MIG_SUPPORTED))
			for _, mode := range []int{nvml.DEVICE_MIG_ENABLE, nvml.DEVICE_MIG_DISABLE} {
				activation, ret := d.SetMigMode(mode)
				mustBe(t, "nvmlDeviceSetMigMode", ret, nvml.SUCCESS)
				mustBe(t, "the activation", activation, nvml.SUCCESS)
				wantMode(t, d, "afterwards", mode, mode)
			}
		})
	}
}

// nvml.h, nvmlDeviceSetMigMode: "if device unbind fails because the device
// isn't idle, NVML_ERROR_IN_USE would be returned" as activationStatus.
func TestAModeIsNotTakenUpWhileProcessesUseTheGPU(t *testing.T) {
	needRoot(t)
	m := newMachine(t, state.NewSpec("h100-80", 1))
	d := device(t, m.session(t), 0)
	user := state.Process{PID: 4711, GPUInstance: state.WholeGPU, ComputeInstance: state.WholeGPU}
	mustDo(t, m.PutProcess(0, user))
	activation, ret := d.SetMigMode(nvml.DEVICE_MIG_ENABLE)
	mustBe(t, "nvmlDeviceSetMigMode", ret, nvml.SUCCESS)
	mustBe(t, "the activation", activation, nvml.ERROR_IN_USE)
	wantMode(t, d, "while it is in use", nvml.DEVICE_MIG_DISABLE, nvml.DEVICE_MIG_DISABLE)

	mustDo(t, m.DropProcess(0, user.PID))
	activation, _ = d.SetMigMode(nvml.DEVICE_MIG_ENABLE)
	mustBe(t, "the activation on an idle GPU", activation, nvml.SUCCESS)
}

// nvml.h: NOT_SUPPORTED "if device doesn't support MIG mode", and
// nvmlDeviceGetMaxMigDeviceCount "returns zero if MIG is not supported or
// enabled".
func TestGPUsWithoutMIG(t *testing.T) {
	m := newMachine(t, state.NewSpec("l4", 1))
	d := device(t, m.session(t), 0)
	_, ret := d.SetMigMode(nvml.DEVICE_MIG_ENABLE)
	mustBe(t, "nvmlDeviceSetMigMode", ret, nvml.ERROR_NOT_SUPPORTED)
	_, _, ret = d.GetMigMode()
	mustBe(t, "nvmlDeviceGetMigMode", ret, nvml.ERROR_NOT_SUPPORTED)
	count, ret := d.GetMaxMigDeviceCount()
	mustBe(t, "nvmlDeviceGetMaxMigDeviceCount", ret, nvml.SUCCESS)
	mustEqual(t, "the highest number of MIG devices", 0, count)
	_, ret = d.GetMigDeviceHandleByIndex(0)
	mustBe(t, "nvmlDeviceGetMigDeviceHandleByIndex", ret, nvml.ERROR_NOT_SUPPORTED)
	_, ret = d.GetGpuInstanceProfileInfo(nvml.GPU_INSTANCE_PROFILE_1_SLICE)
	mustBe(t, "nvmlDeviceGetGpuInstanceProfileInfo", ret, nvml.ERROR_NOT_SUPPORTED)
	_, ret = d.GetGpuInstanceById(0)
	mustBe(t, "nvmlDeviceGetGpuInstanceById", ret, nvml.ERROR_NOT_SUPPORTED)
}

// nvml.h: what creates or finds instances answers NOT_SUPPORTED "if device
// doesn't have MIG mode enabled". Profiles are reported nevertheless, and
// NVML_FI_DEV_IS_MIG_MODE_INDEPENDENT_MIG_QUERY_CAPABLE says so.
func TestInstancesNeedTheMode(t *testing.T) {
	m := newMachine(t, state.NewSpec("a100-40", 1))
	d := device(t, m.session(t), 0)
	mustEqual(t, "NVML_FI_DEV_IS_MIG_MODE_INDEPENDENT_MIG_QUERY_CAPABLE", uint32(1),
		fieldValue(t, d, nvml.FI_DEV_IS_MIG_MODE_INDEPENDENT_MIG_QUERY_CAPABLE))
	info, ret := d.GetGpuInstanceProfileInfo(nvml.GPU_INSTANCE_PROFILE_1_SLICE)
	mustBe(t, "nvmlDeviceGetGpuInstanceProfileInfo", ret, nvml.SUCCESS)
	_, ret = d.CreateGpuInstance(&info)
	mustBe(t, "nvmlDeviceCreateGpuInstance", ret, nvml.ERROR_NOT_SUPPORTED)
	_, ret = d.GetGpuInstances(&info)
	mustBe(t, "nvmlDeviceGetGpuInstances", ret, nvml.ERROR_NOT_SUPPORTED)
	_, ret = d.GetGpuInstanceRemainingCapacity(&info)
	mustBe(t, "nvmlDeviceGetGpuInstanceRemainingCapacity", ret, nvml.ERROR_NOT_SUPPORTED)
	count, ret := d.GetMaxMigDeviceCount()
	mustBe(t, "nvmlDeviceGetMaxMigDeviceCount", ret, nvml.SUCCESS)
	mustEqual(t, "the highest number of MIG devices", 0, count)
}

// nvml.h, nvmlDeviceCreateGpuInstance: "If the parent device is unbound, reset
// [...] the GPU instance handle would become invalid".
func TestAResetEndsAllInstances(t *testing.T) {
	m := divided(t, "a100-40")
	d := device(t, m.session(t), 0)
	mig := migDevice(t, d)
	gi, ret := d.GetGpuInstanceById(mustID(t, mig))
	mustBe(t, "nvmlDeviceGetGpuInstanceById", ret, nvml.SUCCESS)
	m.reset(t, 0)
	_, ret = gi.GetInfo()
	mustBe(t, "nvmlGpuInstanceGetInfo after the reset", ret, nvml.ERROR_INVALID_ARGUMENT)
	_, ret = mig.GetUUID()
	mustBe(t, "nvmlDeviceGetUUID of the MIG device", ret, nvml.ERROR_INVALID_ARGUMENT)
	mustEqual(t, "MIG devices", 0, len(migDevices(t, d)))
	wantMode(t, d, "after the reset", nvml.DEVICE_MIG_ENABLE, nvml.DEVICE_MIG_ENABLE)
}

func mustID(t *testing.T, mig nvml.Device) int {
	t.Helper()
	id, ret := mig.GetGpuInstanceId()
	mustBe(t, "nvmlDeviceGetGpuInstanceId", ret, nvml.SUCCESS)
	return id
}
