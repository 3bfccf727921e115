// Package state holds the state of a simulated GPU node: its driver, its GPUs,
// the events they raise, and how often each NVML symbol was called.
//
// The state is one file that all processes of the node map shared. gpu-sim
// changes it through this package; the simulated libnvidia-ml.so.1 and
// libcuda.so.1 answer from it. Both are built over the same C files of this
// folder, and simstate.h is the one definition of the layout.
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
	// ErrCorrupt says that a file is not a state file, or damaged.
	ErrCorrupt = errors.New("not a simulated node's state, or damaged")
	// ErrVersion says that another build of the simulator made the file.
	ErrVersion = errors.New("made by another version of the simulator")
	// ErrReadOnly says that the file may only be read.
	ErrReadOnly = errors.New("the state file is read-only")
	// ErrNoGPU says that there is no such GPU.
	ErrNoGPU = errors.New("no such GPU")
)

// MaxGPUs is the number of slots of a simulated node.
const MaxGPUs = C.SIM_MAX_GPUS

// State is an open state file. It is safe for concurrent use, but for Close.
type State struct {
	path string
	sim  *C.struct_sim
}

// Create makes the state file of a new node and opens it. The file appears
// whole or not at all. An existing file is left alone: the error wraps
// fs.ErrExist.
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

// publish writes content to a new file, which gets its name only when it is
// complete.
func publish(path string, content []byte) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.Remove(f.Name())) }()
	_, err = f.Write(content)
	// Every process of the node may count its calls, as every process may
	// open /dev/nvidiactl.
	err = errors.Join(err, f.Chmod(0o666), f.Sync(), f.Close())
	if err != nil {
		return err
	}
	return os.Link(f.Name(), path)
}

// Open opens the state file of a node. Where the file may only be read, what
// would change it answers ErrReadOnly.
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

// Close lets go of the file. The State must not be used afterwards.
func (s *State) Close() error {
	C.sim_close(s.sim)
	s.sim = nil
	return nil
}

// Path returns the name under which the file was opened.
func (s *State) Path() string { return s.path }

// update runs change as the only writer of the file.
func (s *State) update(change func() error) error {
	if !bool(C.sim_writable(s.sim)) {
		return fmt.Errorf("change %s: %w", s.path, ErrReadOnly)
	}
	C.sim_lock(s.sim)
	defer C.sim_unlock(s.sim)
	return change()
}

// updateGPU runs change on a copy of the GPU in a slot, and stores it.
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

// updateTelemetry runs change on a copy of the GPU in a slot and of what it
// counted up to now, and stores it.
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

// setString stores a string in a C array, which it must fit with its end mark.
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
