package gputest

import "outrigger.dev/pkg/gpu"

// GPUEvent returns an event that concerns the whole of GPU id.
func GPUEvent(kind gpu.EventKind, id gpu.UUID) gpu.Event {
	return gpu.Event{Kind: kind, GPU: id, GPUInstance: gpu.NoInstance, ComputeInstance: gpu.NoInstance}
}

// NodeEvent returns an event that concerns the node.
func NodeEvent(kind gpu.EventKind) gpu.Event { return GPUEvent(kind, "") }
