package state

// #include "simstate.h"
import "C"

import (
	"errors"
	"fmt"
	"strconv"
	"time"
)

// Slot is a place for a GPU in the machine. It does not change when other GPUs are plugged or
// unplugged, and equals the minor number of the device node.
type Slot int

// NoInstance is the GPU instance or compute instance of an event that concerns the whole GPU.
const NoInstance = uint32(C.SIM_NO_INSTANCE)

// Lost says how NVML behaves for a lost GPU. Empty means that the GPU works.
type Lost string

// The values of Lost.
const (
	// LostHandle makes NVML return no handle. Calls on old handles return GPU_IS_LOST. nvidia-smi
	// observes this on real hardware.
	LostHandle Lost = "handle"
	// LostCalls makes NVML return handles, but calls on them return GPU_IS_LOST.
	LostCalls Lost = "calls"
)

func lostName(code C.uint32_t) Lost {
	switch code {
	case C.SIM_PRESENT:
		return ""
	case C.SIM_LOST_BEHIND_HANDLE:
		return LostCalls
	default:
		return LostHandle
	}
}

const (
	eventXID     = 8  // nvmlEventTypeXidCriticalError
	xidOffTheBus = 79 // "GPU has fallen off the bus"
)

// PostXID raises an XID on a GPU. On a GPU in MIG mode, gi and ci can name an instance. Otherwise
// they are NoInstance.
func (s *State) PostXID(slot Slot, code uint64, gi, ci uint32) error {
	return s.update(func() error {
		gpu, err := s.gpu(slot)
		if err == nil {
			err = s.checkInstance(&gpu, gi, ci)
		}
		if err != nil {
			return fmt.Errorf("post XID %d: %w", code, err)
		}
		s.postXID(&gpu, code, gi, ci)
		return nil
	})
}

// checkInstance returns an error unless a GPU has the instance of an event.
func (s *State) checkInstance(gpu *C.struct_sim_gpu, gi, ci uint32) error {
	var mig C.struct_sim_mig
	C.sim_read_mig(s.sim, gpu.minor, &mig)
	switch {
	case gi == NoInstance && ci != NoInstance:
		return fmt.Errorf("compute instance %d of no GPU instance: %w", ci, ErrNoInstance)
	case gi != NoInstance && C.sim_gi_by_id(&mig, C.uint32_t(gi)) == nil:
		return fmt.Errorf("GPU instance %d of slot %d: %w; see \"gpu-sim mig list\"", gi, gpu.minor, ErrNoInstance)
	case ci != NoInstance && C.sim_ci_by_id(&mig, C.uint32_t(gi), C.uint32_t(ci)) == nil:
		return fmt.Errorf("compute instance %d of GPU instance %d of slot %d: %w; see \"gpu-sim mig list\"", ci, gi, gpu.minor, ErrNoInstance)
	default:
		return nil
	}
}

func (s *State) postXID(gpu *C.struct_sim_gpu, code uint64, gi, ci uint32) {
	s.post(gpu, C.struct_sim_event{
		kind: C.SIM_EVENT_GPU, _type: eventXID, data: C.uint64_t(code),
		gpu_instance: C.uint32_t(gi), compute_instance: C.uint32_t(ci),
	})
}

// post completes and posts an event. The caller holds the lock.
func (s *State) post(gpu *C.struct_sim_gpu, event C.struct_sim_event) {
	event.slot, event.generation = gpu.minor, gpu.generation
	C.sim_post(s.sim, &event)
}

// Lose makes a GPU fall off the bus: it raises XID 79, and calls on the GPU fail.
func (s *State) Lose(slot Slot, how Lost) error {
	code := map[Lost]C.uint32_t{LostHandle: C.SIM_LOST, LostCalls: C.SIM_LOST_BEHIND_HANDLE}[how]
	if code == 0 {
		return fmt.Errorf("lose GPU in slot %d: unknown way %q, want %q or %q", slot, how, LostHandle, LostCalls)
	}
	return s.updateGPU(slot, func(gpu *C.struct_sim_gpu) error {
		gpu.lost = code
		C.sim_write_gpu(s.sim, C.uint32_t(slot), gpu) // write the state before its event
		s.postXID(gpu, xidOffTheBus, NoInstance, NoInstance)
		s.post(gpu, C.struct_sim_event{kind: C.SIM_EVENT_LOST})
		return nil
	})
}

// Heal recovers a lost GPU.
func (s *State) Heal(slot Slot) error {
	return s.updateGPU(slot, func(gpu *C.struct_sim_gpu) error {
		gpu.lost = C.SIM_PRESENT
		C.sim_write_gpu(s.sim, C.uint32_t(slot), gpu)
		s.post(gpu, C.struct_sim_event{kind: C.SIM_EVENT_LOST})
		return nil
	})
}

// Plug puts a new GPU into the lowest free slot. A running NVML sees it after the next nvmlInit.
func (s *State) Plug(spec GPUSpec) (Slot, error) {
	var slot Slot
	err := s.update(func() error {
		gpu, m, err := s.nextGPU(spec)
		if err != nil {
			return err
		}
		addModel(&C.sim_map(s.sim).models, int(gpu.model_at), m)
		slot = Slot(gpu.minor)
		C.sim_map(s.sim).generations = gpu.generation
		C.sim_write_mig(s.sim, gpu.minor, &C.struct_sim_mig{}) // clear the state of the previous GPU
		C.sim_write_gpu(s.sim, gpu.minor, &gpu)
		s.post(&gpu, C.struct_sim_event{kind: C.SIM_EVENT_PLUGGED, data: busPlace(&gpu)})
		return nil
	})
	return slot, err
}

// NextGPU describes the GPU that Plug would add now. The caller can make the kernel's files of the
// GPU before NVML shows it. Index is not set.
func (s *State) NextGPU(spec GPUSpec) (GPU, error) {
	var next GPU
	err := s.update(func() error {
		gpu, _, err := s.nextGPU(spec)
		next = describe(&gpu, 0)
		return err
	})
	return next, err
}

// nextGPU makes the GPU for the lowest free slot, and returns its model. The caller holds the lock.
func (s *State) nextGPU(spec GPUSpec) (C.struct_sim_gpu, *C.struct_sim_model, error) {
	var gpu C.struct_sim_gpu
	var slot Slot
	state := C.sim_map(s.sim)
	for int(slot) < MaxGPUs && state.gpu[slot].generation != 0 {
		slot++
	}
	if int(slot) == MaxGPUs {
		return gpu, nil, errors.New("plug GPU: all slots are taken; unplug one first")
	}
	at, m, err := modelIn(&state.models, spec.Model)
	if err != nil {
		return gpu, nil, fmt.Errorf("plug GPU: %w", err)
	}
	from := origin{model: m, modelAt: at, uuid: spec.UUID, node: getString(state.node[:]), generation: uint64(state.generations + 1)}
	err = fillGPU(&gpu, from, slot)
	if err == nil {
		err = checkPlace(state.gpu[:], &gpu)
	}
	if err != nil {
		return gpu, nil, fmt.Errorf("plug GPU: %w", err)
	}
	return gpu, m, nil
}

// Unplug removes a GPU from the machine. Handles of the GPU return GPU_IS_LOST, and the next
// nvmlInit does not list it.
func (s *State) Unplug(slot Slot) error {
	return s.updateGPU(slot, func(gpu *C.struct_sim_gpu) error {
		gone := *gpu
		*gpu = C.struct_sim_gpu{}
		C.sim_write_gpu(s.sim, C.uint32_t(slot), gpu)
		s.post(&gone, C.struct_sim_event{kind: C.SIM_EVENT_UNPLUGGED, data: busPlace(&gone)})
		return nil
	})
}

// busPlace encodes the PCI address of a GPU as one number.
func busPlace(gpu *C.struct_sim_gpu) C.uint64_t {
	return C.uint64_t(gpu.domain<<16 | gpu.bus<<8 | gpu.device)
}

// SetDriver loads or unloads the driver.
func (s *State) SetDriver(loaded bool) error {
	return s.update(func() error {
		var driver C.struct_sim_driver
		C.sim_read_driver(s.sim, &driver)
		if loaded == (driver.loaded != 0) {
			return nil
		}
		driver.loaded = 0
		if loaded {
			driver.loaded = 1
			driver.loads++
			for slot := range C.uint32_t(MaxGPUs) { // before programs can read them
				s.resetComputeMode(slot)
				C.sim_restart_counters(s.sim, slot, C.SIM_RECOUNT_DRIVER)
			}
		}
		C.sim_write_driver(s.sim, &driver)
		if !loaded {
			for slot := range C.uint32_t(MaxGPUs) {
				C.sim_restart_mig(s.sim, slot, C.SIM_RESTART_DRIVER)
			}
		}
		C.sim_post(s.sim, &C.struct_sim_event{kind: C.SIM_EVENT_DRIVER})
		return nil
	})
}

// SetDriverVersion sets the driver version for the next load.
func (s *State) SetDriverVersion(version string) error {
	return s.update(func() error {
		var driver C.struct_sim_driver
		C.sim_read_driver(s.sim, &driver)
		if err := errors.Join(
			setString(driver.version[:], version),
			setString(driver.nvml_version[:], strconv.Itoa(int(driver.cuda_version/1000))+"."+version), //nolint:mnd // 13000 is CUDA 13.0
		); err != nil {
			return err
		}
		C.sim_write_driver(s.sim, &driver)
		return nil
	})
}

// Reboot restarts all GPUs, like a restart of the node. Afterwards, no GPU is lost, in use, or asks
// for an action. A pending MIG mode becomes active on GPUs that keep it. On other GPUs, MIG mode is
// off. Reboot does not change the driver.
func (s *State) Reboot() error {
	return s.update(func() error {
		C.sim_write_procs(s.sim, &C.struct_sim_procs{})
		for slot := range Slot(MaxGPUs) {
			gpu, err := s.gpu(slot)
			if err != nil {
				continue // an empty slot
			}
			gpu.lost, gpu.recovery, gpu.remap_pending, gpu.memory_used = C.SIM_PRESENT, 0, 0, 0
			gpu.ecc, gpu.compute_mode = gpu.ecc_pending, C.SIM_COMPUTE_DEFAULT
			C.sim_write_gpu(s.sim, C.uint32_t(slot), &gpu)
			C.sim_restart_counters(s.sim, C.uint32_t(slot), C.SIM_RECOUNT_RESET)
			C.sim_restart_mig(s.sim, C.uint32_t(slot), C.SIM_RESTART_NODE)
		}
		return nil
	})
}

// SetLatency makes every call of NVML take at least d.
func (s *State) SetLatency(d time.Duration) error {
	if d < 0 {
		return fmt.Errorf("set latency %s: negative", d)
	}
	return s.update(func() error {
		C.sim_set_latency(s.sim, C.uint64_t(d.Nanoseconds()))
		return nil
	})
}

func (s *State) latency() time.Duration { return time.Duration(C.sim_latency(s.sim)) }
