// Package ready derives the condition GPUReady of a node: whether its GPUs can
// be used, and if not, which link of the chain that leads there is broken, by
// what evidence, and what helps. It does no I/O.
package ready

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Link is one part of what has to hold for the GPUs of a node to be used.
type Link string

// The links, in the order in which each needs those before it.
const (
	// Driver holds while NVML answers and shows GPUs that work.
	Driver Link = "driver"
	// Toolkit holds while the fact toolkit-ready does.
	Toolkit Link = "toolkit"
	// Plugin holds while the fact plugin-ready does.
	Plugin Link = "plugin"
	// CUDA holds while the fact cuda-ready does.
	CUDA Link = "cuda"
)

// Links returns all links in their order.
func Links() []Link { return []Link{Driver, Toolkit, Plugin, CUDA} }

// ParseChain returns the links that words name, those of the parts that are
// installed. Their order is fixed and so need not be given. A word that names no
// link, and one that comes twice, is an error.
func ParseChain(words []string) ([]Link, error) {
	given := map[Link]bool{}
	var errs []error
	for _, w := range words {
		l := Link(strings.TrimSpace(w))
		switch {
		case !slices.Contains(Links(), l):
			errs = append(errs, fmt.Errorf("link %q is none: use %s", w, allowed()))
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
