package nvml

import (
	"time"

	gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"
)

// noGPU is the index in a call that concerns no single GPU.
const noGPU = -1

// Handle is something of NVML that has calls: the library, a GPU or MIG device, a
// GPU instance, an event set.
type Handle[H any] struct {
	span *Span
	raw  H
	// gpu is the index of the GPU that the handle belongs to, or noGPU.
	gpu int
}

// Get makes a call that has one result. Symbol is the one that f calls: a call of
// a symbol that the library lacks would kill the process, so f is not called then.
// The error is an *Error.
//
//	name, err := nvml.Get(device, "nvmlDeviceGetName", gonvml.Device.GetName)
func Get[H, T any](h Handle[H], symbol string, f func(H) (T, gonvml.Return)) (T, error) {
	if !h.span.lib.has(symbol) {
		var none T
		return none, missing(symbol, h.gpu)
	}
	calls := h.span.session.calls
	place := calls.begin(call{symbol: symbol, gpu: h.gpu})
	value, ret := f(h.raw)
	calls.end(place)
	return value, newError(symbol, h.gpu, ret)
}

// Do is Get for a call without a result, or with several, which f keeps.
func Do[H any](h Handle[H], symbol string, f func(H) gonvml.Return) error {
	return within(h, symbol, call{}, f)
}

// within is Do for a call that is expected to take the time of c.
func within[H any](h Handle[H], symbol string, c call, f func(H) gonvml.Return) error {
	if !h.span.lib.has(symbol) {
		return missing(symbol, h.gpu)
	}
	c.symbol, c.gpu = symbol, h.gpu
	calls := h.span.session.calls
	place := calls.begin(c)
	ret := f(h.raw)
	calls.end(place)
	return newError(symbol, h.gpu, ret)
}

// sub is Get for a call whose result has calls of its own, for the same GPU.
func sub[H, T any](h Handle[H], symbol string, f func(H) (T, gonvml.Return)) (Handle[T], error) {
	raw, err := Get(h, symbol, f)
	return Handle[T]{span: h.span, raw: raw, gpu: h.gpu}, err
}

// millis returns a duration as NVML takes it.
func millis(d time.Duration) uint32 { return uint32(d.Milliseconds()) } //nolint:gosec // waits are short
