package abi_test

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"outrigger.dev/sim/internal/state"
)

const cluster = "d1c4be3f-6f0a-4b1e-9d0c-3a5f0c5b7e21"

func clusterBytes() [16]uint8 {
	return [16]uint8{0xd1, 0xc4, 0xbe, 0x3f, 0x6f, 0x0a, 0x4b, 0x1e, 0x9d, 0x0c, 0x3a, 0x5f, 0x0c, 0x5b, 0x7e, 0x21}
}

// nvml.h, nvmlGpuFabricInfo_v3_t and the NVML_GPU_FABRIC_STATE and
// NVML_GPU_FABRIC_HEALTH constants. nvmlGpuFabricInfo_t and _v2_t are the same
// without the fields that were added later.
func TestFabricIsReportedInEveryVersion(t *testing.T) {
	const health = nvml.GPU_FABRIC_HEALTH_MASK_DEGRADED_BW_FALSE << nvml.GPU_FABRIC_HEALTH_MASK_SHIFT_DEGRADED_BW
	for value, want := range map[string]nvml.GpuFabricInfo_v3{
		"not-supported": {State: nvml.GPU_FABRIC_STATE_NOT_SUPPORTED},
		"not-started":   {State: nvml.GPU_FABRIC_STATE_NOT_STARTED},
		"in-progress":   {State: nvml.GPU_FABRIC_STATE_IN_PROGRESS},
		"completed":     {State: nvml.GPU_FABRIC_STATE_COMPLETED, HealthMask: health, HealthSummary: nvml.GPU_FABRIC_HEALTH_SUMMARY_HEALTHY},
		"failed:999":    {State: nvml.GPU_FABRIC_STATE_COMPLETED, Status: uint32(nvml.ERROR_UNKNOWN)},
		"completed:" + cluster + ".32766": {
			State: nvml.GPU_FABRIC_STATE_COMPLETED, ClusterUuid: clusterBytes(), CliqueId: 32766,
			HealthMask: health, HealthSummary: nvml.GPU_FABRIC_HEALTH_SUMMARY_HEALTHY,
		},
	} {
		t.Run(value, func(t *testing.T) {
			m := newMachine(t, state.NewSpec("h100-80", 2))
			d := device(t, m.session(t), 1)
			mustDo(t, m.SetField(1, "fabric", value))

			v3, ret := d.GetGpuFabricInfoV().V3()
			mustBe(t, "nvmlDeviceGetGpuFabricInfoV, version 3", ret, nvml.SUCCESS)
			want.Version = v3.Version
			mustEqual(t, "version 3", want, v3)

			v2, ret := d.GetGpuFabricInfoV().V2()
			mustBe(t, "nvmlDeviceGetGpuFabricInfoV, version 2", ret, nvml.SUCCESS)
			mustEqual(t, "version 2", nvml.GpuFabricInfo_v2{
				Version: v2.Version, ClusterUuid: want.ClusterUuid, Status: want.Status, CliqueId: want.CliqueId,
				State: want.State, HealthMask: want.HealthMask,
			}, v2)

			v1, ret := d.GetGpuFabricInfo()
			mustBe(t, "nvmlDeviceGetGpuFabricInfo", ret, nvml.SUCCESS)
			mustEqual(t, "the first form", nvml.GpuFabricInfo{
				ClusterUuid: want.ClusterUuid, Status: want.Status, CliqueId: want.CliqueId, State: want.State,
			}, v1)
		})
	}
}

// nvml.h, nvmlDeviceGetGpuFabricInfoV: "For Hopper or newer fully supported
// devices", and NVML_ERROR_NOT_SUPPORTED "if device doesn't support gpu fabric".
func TestOlderGPUsHaveNoFabric(t *testing.T) {
	for _, model := range []string{"a100-80", "l4"} {
		d := device(t, newMachine(t, state.NewSpec(model, 1)).session(t), 0)
		_, ret := d.GetGpuFabricInfoV().V2()
		mustBe(t, "nvmlDeviceGetGpuFabricInfoV of "+model, ret, nvml.ERROR_NOT_SUPPORTED)
		_, ret = d.GetGpuFabricInfo()
		mustBe(t, "nvmlDeviceGetGpuFabricInfo of "+model, ret, nvml.ERROR_NOT_SUPPORTED)
	}
}

// cuda.h, CUDA_ERROR_SYSTEM_NOT_READY: "the system is not yet ready to start any
// CUDA work"; that it waits for the fabric is reported of NVSwitch machines.
func TestCUDAWaitsForTheFabric(t *testing.T) {
	program := compile(t, "cuinit.c", filepath.Join(libraries(t), "libcuda.so.1"))
	for value, want := range map[string]string{
		"not-supported": "0 2\n", "not-started": "802 0\n", "in-progress": "802 0\n",
		"failed:999": "802 0\n", "completed": "0 2\n", "completed:" + cluster + ".1": "0 2\n",
	} {
		t.Run(value, func(t *testing.T) {
			m := newMachine(t, state.NewSpec("h100-80", 2))
			mustDo(t, m.SetField(1, "fabric", value))
			out, err := exec.CommandContext(t.Context(), program).CombinedOutput()
			if err != nil || string(out) != want {
				t.Errorf("got result and count %q (%v), want %q", out, err, want)
			}
		})
	}
}
