package nvml

import (
	"errors"
	"fmt"

	gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"

	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/text"
)

// Error is a failed call of NVML.
type Error struct {
	Symbol string
	// GPU is the position of the GPU in NVML's list, or -1 if the call does not concern a single GPU. The
	// position is not gpu.GPU.Index, which stays with a GPU.
	GPU    int
	Return gonvml.Return
	// Reason is NVML's text for Return. It is stored because NVML returns it only
	// while it is loaded.
	Reason string
	// Missing is set if the library lacks the symbol. Then no call was made.
	Missing bool
	// of is the object of the call, if that is not a GPU.
	of string
}

// newError returns the error of a call, nil if the call succeeded.
func newError(symbol string, position int, ret gonvml.Return) error {
	if ret == gonvml.SUCCESS {
		return nil
	}
	return &Error{Symbol: symbol, GPU: position, Return: ret, Reason: reason(ret)}
}

func missingError(symbol string, position int) error {
	return &Error{
		Symbol: symbol, GPU: position, Return: gonvml.ERROR_FUNCTION_NOT_FOUND,
		Reason: "the library lacks the symbol", Missing: true,
	}
}

// reason returns NVML's text. It does not call NVML for errors that occur on a healthy node.
func reason(ret gonvml.Return) string {
	switch ret {
	case gonvml.ERROR_NOT_SUPPORTED:
		return "Not Supported"
	case gonvml.ERROR_NOT_FOUND:
		return "Not Found"
	case gonvml.ERROR_TIMEOUT:
		return "Timeout"
	case gonvml.ERROR_INVALID_ARGUMENT:
		return "Invalid Argument"
	default:
		return text.Printable(ret.Error())
	}
}

// Error returns the symbol, the GPU and the reason in one line.
func (e *Error) Error() string {
	switch {
	case e.of != "":
		return fmt.Sprintf("%s of %s: %s", e.Symbol, e.of, e.Reason)
	case e.GPU != noGPU:
		return fmt.Sprintf("%s of GPU %d in NVML's list: %s", e.Symbol, e.GPU, e.Reason)
	default:
		return e.Symbol + ": " + e.Reason
	}
}

// Code returns the return code of NVML that err contains: SUCCESS for nil, and
// ERROR_UNKNOWN for an error that does not come from NVML.
func Code(err error) gonvml.Return {
	if err == nil {
		return gonvml.SUCCESS
	}
	if call, ok := errors.AsType[*Error](err); ok {
		return call.Return
	}
	return gonvml.ERROR_UNKNOWN
}

// Fault returns the error of a call as a fault of the GPU or MIG device.
func Fault(err error) *gpu.Fault {
	if call, ok := errors.AsType[*Error](err); ok {
		return &gpu.Fault{Op: call.Symbol, Reason: call.Reason}
	}
	return &gpu.Fault{Op: "use NVML", Reason: err.Error()}
}

// Missing reports whether err comes from a call of a symbol that the library lacks.
func Missing(err error) bool {
	call, ok := errors.AsType[*Error](err)
	return ok && call.Missing
}

// DriverGone reports whether err means that the whole driver is not available, and not only that a
// single GPU fails. A missing permission for one GPU does not count, because the process may be
// allowed to use the others.
func DriverGone(err error) bool {
	call, ok := errors.AsType[*Error](err)
	if !ok {
		return false
	}
	switch call.Return {
	case gonvml.ERROR_UNINITIALIZED, gonvml.ERROR_DRIVER_NOT_LOADED, gonvml.ERROR_LIBRARY_NOT_FOUND,
		gonvml.ERROR_LIB_RM_VERSION_MISMATCH:
		return true
	case gonvml.ERROR_NO_PERMISSION:
		return call.GPU == noGPU
	default:
		return false
	}
}
