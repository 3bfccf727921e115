package abi_test

import (
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"outrigger.dev/sim/internal/state"
)

func info(t *testing.T, d nvml.Device, profile int) *nvml.GpuInstanceProfileInfo {
	t.Helper()
	info, ret := d.GetGpuInstanceProfileInfo(profile)
	mustBe(t, "nvmlDeviceGetGpuInstanceProfileInfo", ret, nvml.SUCCESS)
	return &info
}

func room(t *testing.T, d nvml.Device, profile int) int {
	t.Helper()
	count, ret := d.GetGpuInstanceRemainingCapacity(info(t, d, profile))
	mustBe(t, "nvmlDeviceGetGpuInstanceRemainingCapacity", ret, nvml.SUCCESS)
	return count
}

// nvml.h, nvmlDeviceGetGpuInstancePossiblePlacements_v2: "Creation of new GPU
// instance will fail if there is overlap with the already occupied memory
// slices"; nvmlDeviceCreateGpuInstanceWithPlacement: INSUFFICIENT_RESOURCES "if
// the requested GPU instance could not be created", INVALID_ARGUMENT if "placement
// is invalid".
func TestPlacements(t *testing.T) {
	const taken = 4 // a 3g.20gb lies at 4 to 7
	tests := map[string]struct {
		profile     int
		start, size uint32
		want        nvml.Return
	}{
		"the same place again":                   {nvml.GPU_INSTANCE_PROFILE_3_SLICE, taken, 4, nvml.ERROR_INSUFFICIENT_RESOURCES},
		"beside it":                              {nvml.GPU_INSTANCE_PROFILE_3_SLICE, 0, 4, nvml.SUCCESS},
		"the largest that is left":               {nvml.GPU_INSTANCE_PROFILE_4_SLICE, 0, 4, nvml.SUCCESS},
		"the whole GPU":                          {nvml.GPU_INSTANCE_PROFILE_7_SLICE, 0, 8, nvml.ERROR_INSUFFICIENT_RESOURCES},
		"one slice of what is taken":             {nvml.GPU_INSTANCE_PROFILE_1_SLICE, 6, 1, nvml.ERROR_INSUFFICIENT_RESOURCES},
		"one slice of what is free":              {nvml.GPU_INSTANCE_PROFILE_1_SLICE, 3, 1, nvml.SUCCESS},
		"a start that the profile does not have": {nvml.GPU_INSTANCE_PROFILE_2_SLICE, 1, 2, nvml.ERROR_INVALID_ARGUMENT},
		"a size that the profile does not have":  {nvml.GPU_INSTANCE_PROFILE_2_SLICE, 0, 3, nvml.ERROR_INVALID_ARGUMENT},
		"a start behind the GPU":                 {nvml.GPU_INSTANCE_PROFILE_1_SLICE, 40, 1, nvml.ERROR_INVALID_ARGUMENT},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			m := divided(t, "a100-40")
			d := device(t, m.session(t), 0)
			_, ret := d.CreateGpuInstanceWithPlacement(info(t, d, nvml.GPU_INSTANCE_PROFILE_3_SLICE), &nvml.GpuInstancePlacement{Start: taken, Size: 4})
			mustBe(t, "the first instance", ret, nvml.SUCCESS)
			want := nvml.GpuInstancePlacement{Start: test.start, Size: test.size}
			gi, ret := d.CreateGpuInstanceWithPlacement(info(t, d, test.profile), &want)
			mustBe(t, "nvmlDeviceCreateGpuInstanceWithPlacement", ret, test.want)
			if ret != nvml.SUCCESS {
				return
			}
			made, ret := gi.GetInfo()
			mustBe(t, "nvmlGpuInstanceGetInfo", ret, nvml.SUCCESS)
			mustEqual(t, "placement", want, made.Placement)
			mustEqual(t, "profile", info(t, d, test.profile).Id, made.ProfileId)
			mustEqual(t, "GPU", uuidOf(t, d), uuidOf(t, made.Device))
		})
	}
}

// MIG User Guide, "Supported MIG Profiles": the A100 takes seven 1g, of which
// one may have the media extensions, or less of the larger ones.
func TestCapacityFollowsWhatIsThere(t *testing.T) {
	m := divided(t, "a100-40")
	d := device(t, m.session(t), 0)
	capacity := func() []int {
		var rooms []int
		for _, profile := range []int{
			nvml.GPU_INSTANCE_PROFILE_1_SLICE, nvml.GPU_INSTANCE_PROFILE_1_SLICE_REV1,
			nvml.GPU_INSTANCE_PROFILE_2_SLICE, nvml.GPU_INSTANCE_PROFILE_3_SLICE,
			nvml.GPU_INSTANCE_PROFILE_4_SLICE, nvml.GPU_INSTANCE_PROFILE_7_SLICE,
		} {
			rooms = append(rooms, room(t, d, profile))
		}
		return rooms
	}
	mustEqual(t, "room for 1g, 1g+me, 2g, 3g, 4g, 7g of an empty GPU", []int{7, 1, 3, 2, 1, 1}, capacity())
	whole := instance(t, d, nvml.GPU_INSTANCE_PROFILE_7_SLICE)
	mustEqual(t, "room beside a 7g", []int{0, 0, 0, 0, 0, 0}, capacity())
	mustBe(t, "nvmlGpuInstanceDestroy", whole.Destroy(), nvml.SUCCESS)
	instance(t, d, nvml.GPU_INSTANCE_PROFILE_1_SLICE_REV1)
	mustEqual(t, "room for another 1g+me", 0, room(t, d, nvml.GPU_INSTANCE_PROFILE_1_SLICE_REV1))
	for range 6 {
		instance(t, d, nvml.GPU_INSTANCE_PROFILE_1_SLICE)
	}
	mustEqual(t, "room beside seven 1g", []int{0, 0, 0, 0, 0, 0}, capacity())
	_, ret := d.CreateGpuInstance(info(t, d, nvml.GPU_INSTANCE_PROFILE_1_SLICE))
	mustBe(t, "the eighth", ret, nvml.ERROR_INSUFFICIENT_RESOURCES)
	list, ret := d.GetGpuInstances(info(t, d, nvml.GPU_INSTANCE_PROFILE_1_SLICE))
	mustBe(t, "nvmlDeviceGetGpuInstances", ret, nvml.SUCCESS)
	mustEqual(t, "instances of the profile", 6, len(list))
}

// nvml.h, nvmlGpuInstanceDestroy: IN_USE "if processes (e.g. CUDA application)
// or compute instances are active on the GPU instance"; the same for processes
// at nvmlComputeInstanceDestroy.
func TestWhatIsInUseIsNotDestroyed(t *testing.T) {
	m := divided(t, "a100-40")
	d := device(t, m.session(t), 0)
	gi := instance(t, d, nvml.GPU_INSTANCE_PROFILE_2_SLICE)
	ci := compute(t, gi, nvml.COMPUTE_INSTANCE_PROFILE_2_SLICE)
	mustBe(t, "destroy the GPU instance", gi.Destroy(), nvml.ERROR_IN_USE)

	user := state.Process{PID: 4711, GPUInstance: mustID(t, migDevices(t, d)[0])}
	mustDo(t, m.PutProcess(0, user))
	mustBe(t, "destroy the compute instance with a process", ci.Destroy(), nvml.ERROR_IN_USE)
	mustDo(t, m.DropProcess(0, user.PID))
	mustBe(t, "destroy the compute instance", ci.Destroy(), nvml.SUCCESS)
	mustBe(t, "destroy the GPU instance", gi.Destroy(), nvml.SUCCESS)
}

// nvml.h: compute instances share a GPU instance by its compute slices, and
// "creation of new compute instance will fail if there is overlap".
func TestComputeInstancesShareAGPUInstance(t *testing.T) {
	m := divided(t, "a100-40")
	gi := instance(t, device(t, m.session(t), 0), nvml.GPU_INSTANCE_PROFILE_3_SLICE)
	one, ret := gi.GetComputeInstanceProfileInfo(nvml.COMPUTE_INSTANCE_PROFILE_1_SLICE, 0)
	mustBe(t, "nvmlGpuInstanceGetComputeInstanceProfileInfo", ret, nvml.SUCCESS)
	two, ret := gi.GetComputeInstanceProfileInfo(nvml.COMPUTE_INSTANCE_PROFILE_2_SLICE, 0)
	mustBe(t, "nvmlGpuInstanceGetComputeInstanceProfileInfo", ret, nvml.SUCCESS)

	ci, ret := gi.CreateComputeInstanceWithPlacement(&one, &nvml.ComputeInstancePlacement{Start: 2, Size: 1})
	mustBe(t, "nvmlGpuInstanceCreateComputeInstanceWithPlacement", ret, nvml.SUCCESS)
	made, ret := ci.GetInfo()
	mustBe(t, "nvmlComputeInstanceGetInfo", ret, nvml.SUCCESS)
	mustEqual(t, "placement", nvml.ComputeInstancePlacement{Start: 2, Size: 1}, made.Placement)
	_, ret = gi.CreateComputeInstanceWithPlacement(&one, &nvml.ComputeInstancePlacement{Start: 2, Size: 1})
	mustBe(t, "the same place again", ret, nvml.ERROR_INSUFFICIENT_RESOURCES)
	_, ret = gi.CreateComputeInstanceWithPlacement(&two, &nvml.ComputeInstancePlacement{Start: 1, Size: 2})
	mustBe(t, "a start that the profile does not have", ret, nvml.ERROR_INVALID_ARGUMENT)
	_, ret = gi.CreateComputeInstance(&nvml.ComputeInstanceProfileInfo{Id: 4})
	mustBe(t, "a profile that is larger than the GPU instance", ret, nvml.ERROR_NOT_SUPPORTED)

	left, ret := gi.GetComputeInstanceRemainingCapacity(&one)
	mustBe(t, "nvmlGpuInstanceGetComputeInstanceRemainingCapacity", ret, nvml.SUCCESS)
	mustEqual(t, "room for 1c", 2, left)
	_, ret = gi.CreateComputeInstance(&two)
	mustBe(t, "the rest", ret, nvml.SUCCESS)
	left, _ = gi.GetComputeInstanceRemainingCapacity(&one)
	mustEqual(t, "room for 1c", 0, left)
	list, ret := gi.GetComputeInstances(&one)
	mustBe(t, "nvmlGpuInstanceGetComputeInstances", ret, nvml.SUCCESS)
	mustEqual(t, "compute instances of the profile", 1, len(list))
	_, ret = gi.GetComputeInstanceById(7)
	mustBe(t, "nvmlGpuInstanceGetComputeInstanceById of none", ret, nvml.ERROR_NOT_FOUND)
}

// nvml.h: when an instance is destroyed "the handle would become invalid. The
// GPU instance must be recreated to acquire a valid handle"; that it was made
// again does not bring the old handle back.
func TestHandlesEndWithTheirInstances(t *testing.T) {
	m := divided(t, "a100-40")
	d := device(t, m.session(t), 0)
	gi := instance(t, d, nvml.GPU_INSTANCE_PROFILE_1_SLICE)
	ci := compute(t, gi, nvml.COMPUTE_INSTANCE_PROFILE_1_SLICE)
	mig := migDevices(t, d)[0]
	id := mustID(t, mig)
	for _, when := range []string{"after the end", "after it was made again"} {
		if when == "after the end" {
			mustBe(t, "nvmlComputeInstanceDestroy", ci.Destroy(), nvml.SUCCESS)
			mustBe(t, "nvmlGpuInstanceDestroy", gi.Destroy(), nvml.SUCCESS)
			_, ret := d.GetGpuInstanceById(id)
			mustBe(t, "nvmlDeviceGetGpuInstanceById", ret, nvml.ERROR_NOT_FOUND)
			_, ret = d.GetMigDeviceHandleByIndex(0)
			mustBe(t, "nvmlDeviceGetMigDeviceHandleByIndex", ret, nvml.ERROR_NOT_FOUND)
		} else {
			again := migDevice(t, d)
			mustEqual(t, "number of the new instance", id, mustID(t, again))
		}
		_, ret := gi.GetInfo()
		mustBe(t, "nvmlGpuInstanceGetInfo "+when, ret, nvml.ERROR_INVALID_ARGUMENT)
		_, ret = ci.GetInfo()
		mustBe(t, "nvmlComputeInstanceGetInfo "+when, ret, nvml.ERROR_INVALID_ARGUMENT)
		_, ret = mig.GetUUID()
		mustBe(t, "nvmlDeviceGetUUID "+when, ret, nvml.ERROR_INVALID_ARGUMENT)
		_, ret = mig.IsMigDeviceHandle()
		mustBe(t, "nvmlDeviceIsMigDeviceHandle "+when, ret, nvml.ERROR_INVALID_ARGUMENT)
		mustBe(t, "nvmlGpuInstanceDestroy "+when, gi.Destroy(), nvml.ERROR_INVALID_ARGUMENT)
		mustBe(t, "nvmlComputeInstanceDestroy "+when, ci.Destroy(), nvml.ERROR_INVALID_ARGUMENT)
	}
}

// Handles of living instances stay what they are, however often others are
// made and destroyed: nvml.h lets only handles be reused that have ended.
func TestHandlesOfOthersAreNotReused(t *testing.T) {
	m := divided(t, "a100-40")
	d := device(t, m.session(t), 0)
	stays := migDevice(t, d)
	uuid := uuidOf(t, stays)
	for range 40 {
		gi := instance(t, d, nvml.GPU_INSTANCE_PROFILE_2_SLICE)
		ci := compute(t, gi, nvml.COMPUTE_INSTANCE_PROFILE_2_SLICE)
		mustEqual(t, "MIG devices", 2, len(migDevices(t, d)))
		mustBe(t, "nvmlComputeInstanceDestroy", ci.Destroy(), nvml.SUCCESS)
		mustBe(t, "nvmlGpuInstanceDestroy", gi.Destroy(), nvml.SUCCESS)
	}
	mustEqual(t, "UUID of the MIG device that stayed", uuid, uuidOf(t, stays))
}
