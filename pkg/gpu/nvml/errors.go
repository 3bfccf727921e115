package nvml

import (
	"fmt"
	"os"
	"path/filepath"

	gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"

	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/text"
)

// callError is an NVML call that failed.
type callError struct {
	op  string
	ret gonvml.Return
	// text is kept, because NVML gives it only while it is loaded.
	text string
}

func newCallError(op string, ret gonvml.Return) *callError {
	return &callError{op: op, ret: ret, text: text.Printable(ret.Error())}
}

func (e *callError) Error() string { return e.op + ": " + e.text }

// fault returns the error as the state of a GPU.
func (e *callError) fault() *gpu.Fault { return &gpu.Fault{Op: e.op, Reason: e.text} }

// driverGone reports whether an answer says that the whole driver is gone, and
// not that one GPU is broken.
func driverGone(ret gonvml.Return) bool {
	switch ret {
	case gonvml.ERROR_UNINITIALIZED, gonvml.ERROR_DRIVER_NOT_LOADED, gonvml.ERROR_LIBRARY_NOT_FOUND,
		gonvml.ERROR_NO_PERMISSION, gonvml.ERROR_LIB_RM_VERSION_MISMATCH:
		return true
	default:
		return false
	}
}

// initError explains why NVML cannot be initialised.
func (s *Source) initError(lib *library, ret gonvml.Return) error {
	cause := newCallError("nvmlInit_v2 of "+lib.path, ret)
	fix := s.initFix(ret, access(controlNode))
	if fix == "" {
		return fmt.Errorf("initialise NVML: %w (see the kernel log for NVRM messages)", cause)
	}
	return fmt.Errorf("initialise NVML: %w: %w (%s)", gpu.ErrNoDriver, cause, fix)
}

// initFix says what helps against an answer of nvmlInit, where that is known.
// denied is why this process may not use the control node.
func (s *Source) initFix(ret gonvml.Return, denied error) string {
	switch {
	case ret == gonvml.ERROR_NO_PERMISSION:
		return "this process may not open " + controlNode + " or a GPU's node: " + giveNodes
	case ret == gonvml.ERROR_LIB_RM_VERSION_MISMATCH:
		return "the library and the loaded kernel module are of different versions: load the module again, or reboot"
	case driverGone(ret):
		return s.notLoadedFix()
	case ret == gonvml.ERROR_UNKNOWN && denied != nil:
		// What NVML makes of a node that the device cgroup refuses.
		return denied.Error() + ": " + giveNodes
	default:
		return ""
	}
}

// notLoadedFix tells apart what NVML does not: no module, or no device nodes.
func (s *Source) notLoadedFix() string {
	if _, err := os.Stat(filepath.Join(s.cfg.ProcRoot, "driver/nvidia/version")); err != nil {
		return "the kernel module nvidia is not loaded: modprobe nvidia"
	}
	return "the kernel module is loaded, but this process has no " + controlNode + ": " + giveNodes +
		"; a host without the nodes makes them by nvidia-modprobe -c 0 -u"
}
