package apply

import (
	"errors"
	"fmt"
	"strings"

	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/mig"
)

// InUse is returned if something uses what has to go. Nothing of the GPU was changed, or it
// was rolled back.
type InUse struct {
	GPU   gpu.UUID
	Index int
	// Holders is empty if the driver says that it is in use, and lists no process.
	Holders []mig.Holder
	// Open are processes that have the device node of the GPU open or mapped then, and Modules the kernel
	// modules that can keep it. Both may be empty also if there are some.
	Open    []mig.Holder
	Modules []string
}

// Error names the GPU, the processes and the fix.
func (e *InUse) Error() string {
	if len(e.Holders) == 0 {
		return fmt.Sprintf("GPU %d (%s) is in use, and the driver lists no process of it: %s", e.Index, e.GPU, e.suspects())
	}
	return fmt.Sprintf("GPU %d (%s) is in use by %s: end it, or wait for it", e.Index, e.GPU, named(e.Holders))
}

// Holders returns the holders that an error names, of each *InUse that it wraps.
func Holders(err error) []mig.Holder {
	switch e := err.(type) { //nolint:errorlint // it walks the tree itself
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

// suspects returns what may hold a GPU of which the driver lists no process, and how to find it.
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

// HoldersUnknown is returned if it is not known which containers use the GPUs. Nothing was changed.
type HoldersUnknown struct{ Err error }

// Error says why it is not known.
func (e *HoldersUnknown) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *HoldersUnknown) Unwrap() error { return e.Err }

// RebootError is returned for a GPU whose mode takes effect only after a reboot.
type RebootError struct {
	GPU   gpu.UUID
	Index int
	// Reason is why a reset does not do.
	Reason string
}

// Error names the GPU, the reason and the fix.
func (e *RebootError) Error() string {
	return fmt.Sprintf("GPU %d (%s) needs a reboot of the node for its MIG mode: %s", e.Index, e.GPU, e.Reason)
}
