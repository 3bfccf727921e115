package abi_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/google/go-cmp/cmp"

	"outrigger.dev/sim/internal/state"
)

// The tests of MIG name their source beside what they expect: nvml.h, which
// documents every function and its answers, or a section of NVIDIA's MIG User
// Guide (docs.nvidia.com/datacenter/tesla/mig-user-guide). What neither states
// is called so.

// Numbers of capabilities. MIG User Guide, "Device Nodes and Capabilities":
// /proc/driver/nvidia-caps/mig-minors.
const (
	capConfig  = "nvidia-caps/nvidia-cap1"
	capMonitor = "nvidia-caps/nvidia-cap2"
)

// divided makes a machine whose first GPU has the MIG mode on. The nodes of the
// capabilities to divide it and to monitor all instances are there.
func divided(t *testing.T, model string) *machine {
	t.Helper()
	m := newMachine(t, state.NewSpec(model, 1))
	m.addNode(t, capConfig)
	m.addNode(t, capMonitor)
	m.divide(t, 0)
	return m
}

// divide switches the MIG mode of a GPU on.
func (m *machine) divide(t *testing.T, slot state.Slot) {
	t.Helper()
	activation, err := m.SetMIGMode(slot, true)
	mustDo(t, err)
	if activation == state.ModePending {
		m.reset(t, slot)
	}
}

func (m *machine) reset(t *testing.T, slot state.Slot) {
	t.Helper()
	mustDo(t, m.BeginReset(slot))
	mustDo(t, m.EndReset(slot))
}

// allow adds the nodes of the capabilities that a MIG device needs.
func (m *machine) allow(t *testing.T, slot state.Slot, uuid string) {
	t.Helper()
	gi, ci := m.capabilities(t, slot, uuid)
	m.addNode(t, gi)
	m.addNode(t, ci)
}

// capabilities returns the nodes of a MIG device: that of its GPU instance, and
// that of its compute instance.
func (m *machine) capabilities(t *testing.T, slot state.Slot, uuid string) (gi, ci string) {
	t.Helper()
	mig, err := m.MIG(slot)
	mustDo(t, err)
	for _, g := range mig.GPUInstances {
		for _, c := range g.ComputeInstances {
			if c.UUID == uuid {
				return fmt.Sprintf("nvidia-caps/nvidia-cap%d", g.Minor), fmt.Sprintf("nvidia-caps/nvidia-cap%d", c.Minor)
			}
		}
	}
	t.Fatalf("there is no MIG device %s", uuid)
	return "", ""
}

// withoutCapabilities takes the nodes of all capabilities away.
func (m *machine) withoutCapabilities(t *testing.T) {
	t.Helper()
	mustDo(t, os.RemoveAll(m.dev+"/nvidia-caps"))
}

func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("setting the MIG mode through NVML needs root")
	}
}

// instance makes a GPU instance of a profile. Its place is chosen by the driver.
func instance(t *testing.T, d nvml.Device, profile int) nvml.GpuInstance {
	t.Helper()
	info, ret := d.GetGpuInstanceProfileInfo(profile)
	mustBe(t, "nvmlDeviceGetGpuInstanceProfileInfo", ret, nvml.SUCCESS)
	gi, ret := d.CreateGpuInstance(&info)
	mustBe(t, "nvmlDeviceCreateGpuInstance", ret, nvml.SUCCESS)
	return gi
}

// compute makes a compute instance of a profile.
func compute(t *testing.T, gi nvml.GpuInstance, profile int) nvml.ComputeInstance {
	t.Helper()
	info, ret := gi.GetComputeInstanceProfileInfo(profile, nvml.COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED)
	mustBe(t, "nvmlGpuInstanceGetComputeInstanceProfileInfo", ret, nvml.SUCCESS)
	ci, ret := gi.CreateComputeInstance(&info)
	mustBe(t, "nvmlGpuInstanceCreateComputeInstance", ret, nvml.SUCCESS)
	return ci
}

// migDevice makes a MIG device of one compute slice and returns its handle.
func migDevice(t *testing.T, d nvml.Device) nvml.Device {
	t.Helper()
	ci := compute(t, instance(t, d, nvml.GPU_INSTANCE_PROFILE_1_SLICE), nvml.COMPUTE_INSTANCE_PROFILE_1_SLICE)
	info, ret := ci.GetInfo()
	mustBe(t, "nvmlComputeInstanceGetInfo", ret, nvml.SUCCESS)
	gi, ret := info.GpuInstance.GetInfo()
	mustBe(t, "nvmlGpuInstanceGetInfo", ret, nvml.SUCCESS)
	for _, mig := range migDevices(t, d) {
		if id, _ := mig.GetGpuInstanceId(); id == int(gi.Id) {
			return mig
		}
	}
	t.Fatal("the new MIG device is not listed")
	return nil
}

// migDevices walks the MIG devices of a GPU, as nvml.h has it: by index, up to
// the highest number that can exist.
func migDevices(t *testing.T, d nvml.Device) []nvml.Device {
	t.Helper()
	count, ret := d.GetMaxMigDeviceCount()
	mustBe(t, "nvmlDeviceGetMaxMigDeviceCount", ret, nvml.SUCCESS)
	var list []nvml.Device
	for i := range count {
		mig, ret := d.GetMigDeviceHandleByIndex(i)
		if ret == nvml.ERROR_NOT_FOUND {
			continue
		}
		mustBe(t, "nvmlDeviceGetMigDeviceHandleByIndex", ret, nvml.SUCCESS)
		list = append(list, mig)
	}
	return list
}

func uuidOf(t *testing.T, d nvml.Device) string {
	t.Helper()
	uuid, ret := d.GetUUID()
	mustBe(t, "nvmlDeviceGetUUID", ret, nvml.SUCCESS)
	return uuid
}

func mustEqual(t *testing.T, what string, want, got any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("%s (-want +got):\n%s", what, diff)
	}
}

// carve makes a MIG device of a profile through the state, as gpu-sim does, and
// returns its UUID and the number of its GPU instance.
func (m *machine) carve(t *testing.T, slot state.Slot, profile string) (uuid string, gi int) {
	t.Helper()
	board, err := m.Board(slot)
	mustDo(t, err)
	kind, part, err := board.Find(profile)
	mustDo(t, err)
	made, err := m.CreateGPUInstance(slot, kind, state.Anywhere)
	mustDo(t, err)
	ci, err := m.CreateComputeInstance(slot, made, part, state.Anywhere)
	mustDo(t, err)
	return ci.UUID, made.ID
}

// occupy makes a MIG device on the first GPU and a process that uses it.
func occupy(t *testing.T, m *machine) {
	t.Helper()
	m.addNode(t, capConfig)
	m.divide(t, 0)
	_, gi := m.carve(t, 0, "1g.5gb")
	mustDo(t, m.PutProcess(0, state.Process{PID: 4711, GPUInstance: gi, MemoryBytes: 1 << 20}))
}
