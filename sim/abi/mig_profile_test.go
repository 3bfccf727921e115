package abi_test

import (
	"strings"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/google/go-cmp/cmp"
)

// kind is what NVML reports of a profile of GPU instances.
type kind struct {
	ID, Slices, Instances, SMs, Copy, Decoders, JPEG, OFA uint32
	MemoryMB                                              uint64
	Name                                                  string
	Starts                                                []uint32
	Size                                                  uint32
}

// profiles walks the profiles of a GPU as nvml.h advises: "invoking it on
// profile values starting from 0, until the API returns INVALID_ARGUMENT".
func profiles(t *testing.T, d nvml.Device) map[int]kind {
	t.Helper()
	found := map[int]kind{}
	for profile := 0; ; profile++ {
		info, ret := d.GetGpuInstanceProfileInfo(profile)
		switch ret {
		case nvml.ERROR_INVALID_ARGUMENT:
			mustEqual(t, "end of the profiles", nvml.GPU_INSTANCE_PROFILE_COUNT, profile)
			return found
		case nvml.ERROR_NOT_SUPPORTED:
			continue
		default:
			mustBe(t, "nvmlDeviceGetGpuInstanceProfileInfo", ret, nvml.SUCCESS)
		}
		k := kind{
			ID: info.Id, Slices: info.SliceCount, Instances: info.InstanceCount, SMs: info.MultiprocessorCount,
			Copy: info.CopyEngineCount, Decoders: info.DecoderCount, JPEG: info.JpegCount, OFA: info.OfaCount,
			MemoryMB: info.MemorySizeMB,
		}
		placements, ret := d.GetGpuInstancePossiblePlacements(&info)
		mustBe(t, "nvmlDeviceGetGpuInstancePossiblePlacements", ret, nvml.SUCCESS)
		for _, p := range placements {
			k.Starts, k.Size = append(k.Starts, p.Start), p.Size
		}
		k.Name = nameOf(t, d, profile, info)
		found[profile] = k
	}
}

// nameOf asks for a profile in the newer ways, which add its name, and checks
// that they agree with the old one.
func nameOf(t *testing.T, d nvml.Device, profile int, old nvml.GpuInstanceProfileInfo) string {
	t.Helper()
	v2, ret := d.GetGpuInstanceProfileInfoV(profile).V2()
	mustBe(t, "the second version", ret, nvml.SUCCESS)
	v3, ret := d.GetGpuInstanceProfileInfoV(profile).V3()
	mustBe(t, "the third version", ret, nvml.SUCCESS)
	byID, ret := d.GetGpuInstanceProfileInfoByIdV(int(old.Id)).V2()
	mustBe(t, "the second version by id", ret, nvml.SUCCESS)
	mustEqual(t, "the second version by id", v2, byID)
	mustEqual(t, "the second version", old, nvml.GpuInstanceProfileInfo{
		Id: v2.Id, IsP2pSupported: v2.IsP2pSupported, SliceCount: v2.SliceCount, InstanceCount: v2.InstanceCount,
		MultiprocessorCount: v2.MultiprocessorCount, CopyEngineCount: v2.CopyEngineCount, DecoderCount: v2.DecoderCount,
		EncoderCount: v2.EncoderCount, JpegCount: v2.JpegCount, OfaCount: v2.OfaCount, MemorySizeMB: v2.MemorySizeMB,
	})
	mustEqual(t, "the third version", v2.MemorySizeMB, v3.MemorySizeMB)
	mustEqual(t, "name by the third version", text(v2.Name[:]), text(v3.Name[:]))
	return text(v2.Name[:])
}

// text reads a string of C.
func text(chars []int8) string {
	var b strings.Builder
	for _, c := range chars {
		if c == 0 {
			break
		}
		b.WriteByte(byte(c))
	}
	return b.String()
}

// MIG User Guide, "Supported MIG Profiles" (A100, A30), and "Getting Started
// with MIG" for the output of nvidia-smi mig -lgip and -lgipp. The number by
// which a profile is asked for is not the one by which it is created.
func TestProfiles(t *testing.T) {
	every, even := []uint32{0, 1, 2, 3, 4, 5, 6}, []uint32{0, 2, 4}
	tests := map[string]map[int]kind{
		"a100-40": {
			nvml.GPU_INSTANCE_PROFILE_1_SLICE:      {19, 1, 7, 14, 1, 0, 0, 0, 4864, "MIG 1g.5gb", every, 1},
			nvml.GPU_INSTANCE_PROFILE_1_SLICE_REV1: {20, 1, 1, 14, 1, 1, 1, 1, 4864, "MIG 1g.5gb+me", every, 1},
			nvml.GPU_INSTANCE_PROFILE_1_SLICE_REV2: {15, 1, 4, 14, 1, 1, 0, 0, 9856, "MIG 1g.10gb", []uint32{0, 2, 4, 6}, 2},
			nvml.GPU_INSTANCE_PROFILE_2_SLICE:      {14, 2, 3, 28, 2, 1, 0, 0, 9856, "MIG 2g.10gb", even, 2},
			nvml.GPU_INSTANCE_PROFILE_3_SLICE:      {9, 3, 2, 42, 3, 2, 0, 0, 19968, "MIG 3g.20gb", []uint32{0, 4}, 4},
			nvml.GPU_INSTANCE_PROFILE_4_SLICE:      {5, 4, 1, 56, 4, 2, 0, 0, 19968, "MIG 4g.20gb", []uint32{0}, 4},
			nvml.GPU_INSTANCE_PROFILE_7_SLICE:      {0, 7, 1, 98, 7, 5, 1, 1, 40192, "MIG 7g.40gb", []uint32{0}, 8},
		},
	}
	for model, want := range tests {
		t.Run(model, func(t *testing.T) {
			m := divided(t, model)
			if diff := cmp.Diff(want, profiles(t, device(t, m.session(t), 0))); diff != "" {
				t.Errorf("profiles (-want +got):\n%s", diff)
			}
		})
	}
}

// nvml.h has profile ids "unique within the device". What a GPU does not have
// cannot be asked for by id.
func TestProfileIDsAreOfTheDevice(t *testing.T) {
	const ofA30 = 21 // 1g.6gb+me there, nothing on the A100
	m := divided(t, "a100-40")
	d := device(t, m.session(t), 0)
	foreign := &nvml.GpuInstanceProfileInfo{Id: ofA30, InstanceCount: 1}
	_, ret := d.GetGpuInstancePossiblePlacements(foreign)
	mustBe(t, "nvmlDeviceGetGpuInstancePossiblePlacements", ret, nvml.ERROR_NOT_SUPPORTED)
	_, ret = d.GetGpuInstanceRemainingCapacity(foreign)
	mustBe(t, "nvmlDeviceGetGpuInstanceRemainingCapacity", ret, nvml.ERROR_NOT_SUPPORTED)
	_, ret = d.CreateGpuInstance(foreign)
	mustBe(t, "nvmlDeviceCreateGpuInstance", ret, nvml.ERROR_INVALID_ARGUMENT)
	_, ret = d.GetGpuInstances(foreign)
	mustBe(t, "nvmlDeviceGetGpuInstances", ret, nvml.ERROR_INVALID_ARGUMENT)
}

// MIG User Guide, "Getting Started with MIG": nvidia-smi mig -lcip of a 3g.20gb
// lists 1c x3, 2c x1 and 3c x1, which share the engines of the instance.
func TestComputeProfiles(t *testing.T) {
	type part struct {
		ID, Slices, Instances, SMs, Copy, Decoders uint32
		Name                                       string
		Starts                                     []uint32
	}
	m := divided(t, "a100-40")
	gi := instance(t, device(t, m.session(t), 0), nvml.GPU_INSTANCE_PROFILE_3_SLICE)
	got := map[int]part{}
	for profile := range nvml.COMPUTE_INSTANCE_PROFILE_COUNT {
		info, ret := gi.GetComputeInstanceProfileInfo(profile, nvml.COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED)
		if ret == nvml.ERROR_NOT_SUPPORTED {
			continue
		}
		mustBe(t, "nvmlGpuInstanceGetComputeInstanceProfileInfo", ret, nvml.SUCCESS)
		v3, ret := gi.GetComputeInstanceProfileInfoV(profile, nvml.COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED).V3()
		mustBe(t, "nvmlGpuInstanceGetComputeInstanceProfileInfoV", ret, nvml.SUCCESS)
		p := part{info.Id, info.SliceCount, info.InstanceCount, info.MultiprocessorCount, info.SharedCopyEngineCount, info.SharedDecoderCount, text(v3.Name[:]), nil}
		placements, ret := gi.GetComputeInstancePossiblePlacements(&info)
		mustBe(t, "nvmlGpuInstanceGetComputeInstancePossiblePlacements", ret, nvml.SUCCESS)
		for _, at := range placements {
			p.Starts = append(p.Starts, at.Start)
		}
		got[profile] = p
	}
	want := map[int]part{
		nvml.COMPUTE_INSTANCE_PROFILE_1_SLICE: {0, 1, 3, 14, 3, 2, "1c.3g.20gb", []uint32{0, 1, 2}},
		nvml.COMPUTE_INSTANCE_PROFILE_2_SLICE: {1, 2, 1, 28, 3, 2, "2c.3g.20gb", []uint32{0}},
		nvml.COMPUTE_INSTANCE_PROFILE_3_SLICE: {2, 3, 1, 42, 3, 2, "3g.20gb", []uint32{0}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("profiles (-want +got):\n%s", diff)
	}
	_, ret := gi.GetComputeInstanceProfileInfo(nvml.COMPUTE_INSTANCE_PROFILE_COUNT, 0)
	mustBe(t, "a profile behind the last", ret, nvml.ERROR_INVALID_ARGUMENT)
	_, ret = gi.GetComputeInstanceProfileInfo(0, nvml.COMPUTE_INSTANCE_ENGINE_PROFILE_COUNT)
	mustBe(t, "an engine profile behind the last", ret, nvml.ERROR_INVALID_ARGUMENT)
}
