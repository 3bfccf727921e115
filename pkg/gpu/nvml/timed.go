package nvml

import (
	"time"

	gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"
)

// timed is NVML, with each call that this package makes noted while it is in
// flight. A test counts that none is left out.
type timed struct {
	gonvml.Interface
	calls *inFlight
}

// note notes a call, and returns its place.
func (t timed) note(op string) int { return t.calls.begin(call{op: op, gpu: noGPU}) }

// Init calls nvmlInit_v2.
func (t timed) Init() gonvml.Return {
	defer t.calls.end(t.note("nvmlInit_v2"))
	return t.Interface.Init()
}

// Shutdown calls nvmlShutdown.
func (t timed) Shutdown() gonvml.Return {
	defer t.calls.end(t.note("nvmlShutdown"))
	return t.Interface.Shutdown()
}

// SystemGetDriverVersion calls nvmlSystemGetDriverVersion.
func (t timed) SystemGetDriverVersion() (string, gonvml.Return) {
	defer t.calls.end(t.note("nvmlSystemGetDriverVersion"))
	return t.Interface.SystemGetDriverVersion()
}

// SystemGetNVMLVersion calls nvmlSystemGetNVMLVersion.
func (t timed) SystemGetNVMLVersion() (string, gonvml.Return) {
	defer t.calls.end(t.note("nvmlSystemGetNVMLVersion"))
	return t.Interface.SystemGetNVMLVersion()
}

// SystemGetCudaDriverVersion_v2 calls nvmlSystemGetCudaDriverVersion_v2.
func (t timed) SystemGetCudaDriverVersion_v2() (int, gonvml.Return) { //nolint:revive // the name is NVML's
	defer t.calls.end(t.note("nvmlSystemGetCudaDriverVersion_v2"))
	return t.Interface.SystemGetCudaDriverVersion_v2()
}

// DeviceGetCount calls nvmlDeviceGetCount_v2.
func (t timed) DeviceGetCount() (int, gonvml.Return) {
	defer t.calls.end(t.note("nvmlDeviceGetCount_v2"))
	return t.Interface.DeviceGetCount()
}

// DeviceGetHandleByIndex calls nvmlDeviceGetHandleByIndex_v2.
func (t timed) DeviceGetHandleByIndex(index int) (gonvml.Device, gonvml.Return) {
	defer t.calls.end(t.calls.begin(call{op: "nvmlDeviceGetHandleByIndex_v2", gpu: index}))
	h, ret := t.Interface.DeviceGetHandleByIndex(index)
	return timedDevice{Device: h, calls: t.calls, index: index}, ret
}

// EventSetCreate calls nvmlEventSetCreate.
func (t timed) EventSetCreate() (gonvml.EventSet, gonvml.Return) {
	defer t.calls.end(t.note("nvmlEventSetCreate"))
	set, ret := t.Interface.EventSetCreate()
	return timedSet{EventSet: set, calls: t.calls}, ret
}

// timedSet is an event set of timed.
type timedSet struct {
	gonvml.EventSet
	calls *inFlight
}

// Wait calls nvmlEventSetWait_v2, which waits by intent.
func (t timedSet) Wait(millis uint32) (gonvml.EventData, gonvml.Return) {
	defer t.calls.end(t.calls.begin(call{op: "nvmlEventSetWait_v2", gpu: noGPU, within: time.Duration(millis) * time.Millisecond}))
	data, ret := t.EventSet.Wait(millis)
	data.Device = timedDevice{Device: data.Device, calls: t.calls, index: noGPU}
	return data, ret
}

// Free calls nvmlEventSetFree.
func (t timedSet) Free() gonvml.Return {
	defer t.calls.end(t.calls.begin(call{op: "nvmlEventSetFree", gpu: noGPU}))
	return t.EventSet.Free()
}
