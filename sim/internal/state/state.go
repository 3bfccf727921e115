// Package state holds the state of a simulated GPU node: its driver, its GPUs, their events, and
// the number of calls of each NVML symbol.
//
// The state is one file that all processes of the node map shared. gpu-sim changes it through this
// package. The simulated libnvidia-ml.so.1 and libcuda.so.1 answer from it. Both use the C files of
// this folder. simstate.h is the only definition of the layout.
package state

// #cgo CFLAGS: -std=gnu11 -O2 -Wall -Wextra
// #include <stdlib.h>
// #include "simstate.h"
import "C"

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"unsafe" // cgo passes C strings and structs as unsafe.Pointer
)

var (
	// ErrCorrupt means that a file is not a state file, or is damaged.
	ErrCorrupt = errors.New("not a simulated node's state, or damaged")
	// ErrVersion means that another version of the simulator made the file.
	ErrVersion = errors.New("made by another version of the simulator")
	// ErrReadOnly means that the file is read-only for this process.
	ErrReadOnly = errors.New("the state file is read-only")
	// ErrNoGPU means that the GPU does not exist.
	ErrNoGPU = errors.New("no such GPU")
)

// MaxGPUs is the number of slots of a simulated node.
const MaxGPUs = C.SIM_MAX_GPUS

// State is an open state file. All methods except Close are safe for concurrent use.
type State struct {
	path string
	sim  *C.struct_sim
}

// Create makes the state file of a new node and opens it. The file appears complete or not at all.
// If the file exists, Create does not change it, and the error wraps fs.ErrExist.
func Create(path string, spec Spec) (*State, error) {
	image, err := spec.image()
	if err != nil {
		return nil, fmt.Errorf("create state file %s: %w", path, err)
	}
	if err := publish(path, unsafe.Slice((*byte)(unsafe.Pointer(image)), unsafe.Sizeof(*image))); err != nil {
		return nil, fmt.Errorf("create state file %s: %w", path, err)
	}
	return Open(path)
}

// publish writes content to a new file. The file gets its name only after it is complete.
func publish(path string, content []byte) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.Remove(f.Name())) }()
	_, err = f.Write(content)
	// Every process of the node may write the file to count its calls. Similarly, every process may
	// open /dev/nvidiactl.
	err = errors.Join(err, f.Chmod(0o666), f.Sync(), f.Close())
	if err != nil {
		return err
	}
	return os.Link(f.Name(), path)
}

// Open opens the state file of a node. If the file is read-only, methods that would change it
// return ErrReadOnly.
func Open(path string) (*State, error) {
	name := C.CString(path)
	defer C.free(unsafe.Pointer(name))
	s := &State{path: path}
	code, errno := C.sim_open(name, &s.sim)
	switch code {
	case C.SIM_OK:
		return s, nil
	case C.SIM_CORRUPT:
		return nil, fmt.Errorf("open state file %s: %w; delete the node and create it again", path, ErrCorrupt)
	case C.SIM_VERSION_MISMATCH:
		return nil, fmt.Errorf("open state file %s: %w; delete the node and create it again", path, ErrVersion)
	default:
		return nil, fmt.Errorf("open state file %s: %w", path, errno)
	}
}

// Close releases the file. The State must not be used afterwards.
func (s *State) Close() error {
	C.sim_close(s.sim)
	s.sim = nil
	return nil
}

// Path returns the name under which the file was opened.
func (s *State) Path() string { return s.path }

// update runs change with the write lock of the file.
func (s *State) update(change func() error) error {
	if !bool(C.sim_writable(s.sim)) {
		return fmt.Errorf("change %s: %w", s.path, ErrReadOnly)
	}
	C.sim_lock(s.sim)
	defer C.sim_unlock(s.sim)
	return change()
}

// updateGPU runs change on a copy of the GPU in a slot, and stores the copy.
func (s *State) updateGPU(slot Slot, change func(*C.struct_sim_gpu) error) error {
	return s.update(func() error {
		gpu, err := s.gpu(slot)
		if err != nil {
			return err
		}
		if err := change(&gpu); err != nil {
			return err
		}
		C.sim_write_gpu(s.sim, C.uint32_t(slot), &gpu)
		return nil
	})
}

// updateTelemetry runs change on a copy of the GPU in a slot and its counters, and stores the copy.
func (s *State) updateTelemetry(slot Slot, change func(*telemetry) error) error {
	return s.update(func() error {
		if _, err := s.gpu(slot); err != nil {
			return err
		}
		var t telemetry
		C.sim_read_telemetry(s.sim, C.uint32_t(slot), &t)
		if err := change(&t); err != nil {
			return err
		}
		C.sim_write_telemetry(s.sim, C.uint32_t(slot), &t)
		return nil
	})
}

func (s *State) gpu(slot Slot) (C.struct_sim_gpu, error) {
	var gpu C.struct_sim_gpu
	if slot < 0 || slot >= MaxGPUs {
		return gpu, fmt.Errorf("slot %d: %w; slots are 0 to %d", slot, ErrNoGPU, MaxGPUs-1)
	}
	C.sim_read_gpu(s.sim, C.uint32_t(slot), &gpu)
	if gpu.generation == 0 {
		return gpu, fmt.Errorf("slot %d: %w plugged", slot, ErrNoGPU)
	}
	return gpu, nil
}

// setString stores a string, with its terminating zero, in a C array.
func setString(dst []C.char, s string) error {
	if len(s) >= len(dst) {
		return fmt.Errorf("store %q: longer than %d bytes", s, len(dst)-1)
	}
	clear(dst)
	for i := range len(s) {
		dst[i] = C.char(s[i])
	}
	return nil
}

func getString(src []C.char) string { return C.GoString(&src[0]) }
