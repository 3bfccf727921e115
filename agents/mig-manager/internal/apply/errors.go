package apply

import (
	"errors"
	"fmt"
	"strings"

	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/mig"
)

// InUse is returned if a change would destroy instances in use, or reset a GPU in use. The GPU was
// not changed, or was rolled back.
type InUse struct {
	GPU   gpu.UUID
	Index int
	// Holders is empty if the driver reports that the GPU is in use, and lists no process.
	Holders []mig.Holder
	// Open are the processes with an open or mapped device node of the GPU, and Modules the kernel
	// modules that can hold it, if Holders is empty. Both can be incomplete.
	Open    []mig.Holder
	Modules []string
}

// Error names the GPU, the users and the fix.
func (e *InUse) Error() string {
	if len(e.Holders) == 0 {
		return fmt.Sprintf("GPU %d (%s) is in use, but the driver lists no process that uses it: %s", e.Index, e.GPU, e.suspects())
	}
	return fmt.Sprintf("GPU %d (%s) is in use by %s: end it, or wait for it", e.Index, e.GPU, named(e.Holders))
}

// Holders returns the holders of all *InUse errors in an error.
func Holders(err error) []mig.Holder {
	switch e := err.(type) { //nolint:errorlint // this function walks the tree of errors itself
	case nil:
		return nil
	case *InUse:
		return e.Holders
	case interface{ Unwrap() []error }:
		var out []mig.Holder
		for _, one := range e.Unwrap() {
			out = append(out, Holders(one)...)
		}
		return out
	default:
		return Holders(errors.Unwrap(err))
	}
}

// suspects names possible users of a GPU without listed processes, and says how to find them.
func (e *InUse) suspects() string {
	text := "usually nvidia-persistenced, nv-hostengine of DCGM or an X server of the host has it open"
	if len(e.Open) > 0 {
		text = named(e.Open) + " has it open"
	}
	if len(e.Modules) > 0 {
		text += ", or a display uses it through " + strings.Join(e.Modules, " and ")
	}
	return text + ": find it with fuser -v /dev/nvidia* and lsmod | grep nvidia_, and stop it"
}

func named(holders []mig.Holder) string {
	names := make([]string, 0, len(holders))
	for _, h := range holders {
		names = append(names, h.String())
	}
	return strings.Join(names, ", ")
}

// HoldersUnknown is returned if the containers that use the GPUs are not known. No GPU was changed.
type HoldersUnknown struct{ Err error }

// Error says why the containers are not known.
func (e *HoldersUnknown) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *HoldersUnknown) Unwrap() error { return e.Err }

// RebootError is returned for a GPU whose mode takes effect only after a reboot.
type RebootError struct {
	GPU   gpu.UUID
	Index int
	// Reason is the reason why a reset was not sufficient.
	Reason string
}

// Error names the GPU, the reason and the fix.
func (e *RebootError) Error() string {
	return fmt.Sprintf("GPU %d (%s) needs a reboot of the node to change its MIG mode: %s", e.Index, e.GPU, e.Reason)
}
