package allocate

import (
	"fmt"
	"slices"
	"sort"
)

// MalformedRequestError says that a request contradicts itself.
type MalformedRequestError struct{ Reason string }

// Error returns the contradiction.
func (e MalformedRequestError) Error() string { return "invalid request: " + e.Reason }

// Preferred returns size of the available devices, with those that must be
// included: the first in the order of the resource. It returns fewer where
// fewer are available. Devices that it does not know come last, as the kubelet
// may be a moment behind.
func (a *Allocator) Preferred(available, must []string, size int) ([]string, error) {
	switch {
	case size < 0:
		return nil, MalformedRequestError{fmt.Sprintf("allocation size %d is negative", size)}
	case len(must) > size:
		return nil, MalformedRequestError{fmt.Sprintf("%d devices must be included, but the allocation size is %d", len(must), size)}
	}
	for _, id := range must {
		if !slices.Contains(available, id) {
			return nil, MalformedRequestError{fmt.Sprintf("device %s must be included, but is not available", id)}
		}
	}
	picked := slices.Clone(must)
	for _, id := range a.ordered(available) {
		if len(picked) >= size {
			break
		}
		if !slices.Contains(picked, id) {
			picked = append(picked, id)
		}
	}
	return a.ordered(picked), nil
}

// ordered returns the ids in the order of the resource, unknown ones last.
func (a *Allocator) ordered(ids []string) []string {
	out := slices.Clone(ids)
	place := func(id string) int {
		if r, ok := a.rank[id]; ok {
			return r
		}
		return len(a.rank)
	}
	sort.SliceStable(out, func(i, j int) bool {
		if pi, pj := place(out[i]), place(out[j]); pi != pj {
			return pi < pj
		}
		return out[i] < out[j]
	})
	return out
}
