// Package ready derives the condition GPUReady of a node: whether its GPUs can be used, and if
// not, which link of the chain of required parts does not hold, with the evidence and the fix. It
// does no I/O.
package ready

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Link is one requirement for the use of the GPUs of a node.
type Link string

// The links, in order. Each link requires the links before it.
const (
	// Driver holds while NVML answers and reports a working GPU.
	Driver Link = "driver"
	// MIG holds while the fact mig-ready is valid: the GPUs have their MIG layouts. It also holds
	// if no GPU of the node has a MIG mode, and if labels keep the MIG manager off the node.
	MIG Link = "mig"
	// Toolkit holds while the fact toolkit-ready is valid.
	Toolkit Link = "toolkit"
	// Plugin holds while the fact plugin-ready or dra-ready is valid: the device plugin or the
	// DRA plugin advertises the GPUs.
	Plugin Link = "plugin"
	// CUDA holds while the fact cuda-ready is valid.
	CUDA Link = "cuda"
)

// Links returns all links in order.
func Links() []Link { return []Link{Driver, MIG, Toolkit, Plugin, CUDA} }

// ParseChain returns the links with these names, in the fixed order of the links. It reports
// every unknown name and every duplicate as an error.
func ParseChain(words []string) ([]Link, error) {
	given := map[Link]bool{}
	var errs []error
	for _, w := range words {
		l := Link(strings.TrimSpace(w))
		switch {
		case !slices.Contains(Links(), l):
			errs = append(errs, fmt.Errorf("unknown link %q: use %s", w, allowed()))
		case given[l]:
			errs = append(errs, fmt.Errorf("link %q is given twice", l))
		}
		given[l] = true
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(Links(), func(l Link) bool { return !given[l] }), nil
}

func allowed() string {
	words := make([]string, len(Links()))
	for i, l := range Links() {
		words[i] = string(l)
	}
	return strings.Join(words, ", ")
}
