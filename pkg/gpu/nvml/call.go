package nvml

import gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"

// noGPU is the position in a call that does not concern a single GPU.
const noGPU = -1

// handle is an object of NVML with methods: the library, a GPU or MIG device, a GPU instance, or an
// event set.
type handle[H any] struct {
	span *Span
	raw  H
	// gpu is the position in NVML's list of the GPU that the handle belongs to, or noGPU.
	gpu int
}

// invoke calls f, which calls symbol. If the library lacks the symbol, invoke does not call f,
// because that would end the process. invoke records the call while it is in flight. The error is
// an *Error.
func invoke[H any](h handle[H], symbol string, f func(H) gonvml.Return) error {
	return wait(h, symbol, call{}, f)
}

// get is invoke for a call with one result.
//
//	name, err := get(device.handle, "nvmlDeviceGetName", gonvml.Device.GetName)
func get[H, T any](h handle[H], symbol string, f func(H) (T, gonvml.Return)) (value T, err error) {
	err = invoke(h, symbol, func(raw H) (ret gonvml.Return) {
		value, ret = f(raw)
		return ret
	})
	return value, err
}

// Get is get for a call of a GPU or MIG device that no method of Device makes.
func Get[T any](d Device, symbol string, f func(gonvml.Device) (T, gonvml.Return)) (T, error) {
	return get(d.handle, symbol, f)
}

// wait is invoke for a call that may wait for an event. c has the thread and the limit of the wait.
func wait[H any](h handle[H], symbol string, c call, f func(H) gonvml.Return) error {
	if !h.span.lib.hasSymbol(symbol) {
		return missingError(symbol, h.gpu)
	}
	c.symbol, c.gpu = symbol, h.gpu
	calls := h.span.session.calls
	place := calls.begin(c)
	ret := f(h.raw)
	calls.end(place)
	return newError(symbol, h.gpu, ret)
}

// getHandle is get for a call that returns another object of the same GPU.
func getHandle[H, T any](h handle[H], symbol string, f func(H) (T, gonvml.Return)) (handle[T], error) {
	raw, err := get(h, symbol, f)
	return handle[T]{span: h.span, raw: raw, gpu: h.gpu}, err
}
