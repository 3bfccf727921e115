package gpu

import (
	"context"
	"errors"
	"time"
)

// ErrNoDriver is returned by a Source while it cannot reach the node's driver: the library is
// missing, the kernel module is not loaded, or the process has no permission to open the device
// nodes. The wrapping error has the reason.
var ErrNoDriver = errors.New("no NVIDIA driver")

// ErrDriverChanged is returned, together with ErrNoDriver, after the node's driver was replaced by
// another version. A process cannot unload the library of the old driver, so it has to be
// restarted.
var ErrDriverChanged = errors.New("the NVIDIA driver was replaced")

// ErrHangs is returned by a Source, or by its Health, while the driver neither answers a call nor
// rejects it. Such a call cannot be interrupted. Snapshot and Watch do not wait for the call after
// their context has ended.
var ErrHangs = errors.New("the driver hangs")

// ErrClosed is returned by a Watch that was running when its Source was closed.
var ErrClosed = errors.New("gpu source was closed")

// Source observes the GPUs of a node. It is safe for concurrent use.
type Source interface {
	// Snapshot reads all GPUs. A GPU that fails is part of the result, with its Fault set. The
	// error is for failures of the whole node.
	Snapshot(ctx context.Context) (*Node, error)
	// Watch calls deliver for each event until ctx ends, and then returns nil. The first event is
	// EventTopologyChanged, when the watch is active: a Snapshot read after it misses nothing.
	// Watch calls deliver from one goroutine, which must not Close the source. Events that
	// happen during a call are delivered after it. Watch returns an error when it can deliver no more
	// events, for example ErrNoDriver when the driver is gone or ErrClosed after Close.
	Watch(ctx context.Context, deliver func(Event)) error
	// Close releases the driver. Snapshot and Watch acquire it again.
	Close() error
}

// Checker is a Source that reports whether its driver still answers.
type Checker interface {
	// Health returns an error that wraps ErrHangs while the driver hangs. It
	// never blocks.
	Health() error
	// HangsIn returns the minimum time until Health can return an error, according to the calls in
	// flight. It never blocks.
	HangsIn() time.Duration
}

// Completer is a Source that can read only the values that a snapshot lacks.
type Completer interface {
	// Complete returns the last snapshot. It updates the faulty GPUs and the values that could not
	// be read. Everything else in the snapshot is unchanged.
	Complete(ctx context.Context) (*Node, error)
}

// Linker is a Source that omits the links of GPUs in its snapshots, because reading them takes
// longer than everything else, and few agents need them.
type Linker interface {
	// Links reads the links of the working GPUs of a snapshot. With an error, it returns the links
	// that could be read.
	Links(ctx context.Context, n *Node) ([]Link, error)
}

// Meter is a Source that reads the energy counters of GPUs.
type Meter interface {
	// Energy returns the energy in mJ that a GPU has used since its driver initialized it. The counter
	// starts at zero when the driver initializes the GPU anew.
	Energy(ctx context.Context, id UUID) (uint64, error)
}

// Linked returns n, a snapshot of src. If src is a Linker, Linked reads the links, and returns n
// with them.
func Linked(ctx context.Context, src Source, n *Node) (*Node, error) {
	linker, ok := src.(Linker)
	if !ok {
		return n, nil
	}
	out := *n
	var err error
	out.Links, err = linker.Links(ctx, n)
	return &out, err
}

// EventKind is the kind of an event.
type EventKind string

// The kinds of events.
const (
	// EventXID is an error that the driver reported for a GPU.
	EventXID EventKind = "xid"
	// EventMIGChanged says that the MIG mode or the MIG devices of a GPU have
	// changed.
	EventMIGChanged EventKind = "mig-changed"
	// EventLost says that a GPU stopped answering.
	EventLost EventKind = "lost"
	// EventTopologyChanged says that a GPU has come or gone, or that its recovery, its memory faults or
	// its fabric have changed. The receiver should read a Snapshot.
	EventTopologyChanged EventKind = "topology-changed"
)

// NoInstance is the GPUInstance and ComputeInstance of an event that concerns
// the whole GPU.
const NoInstance = ^uint32(0)

// Event is one event of a GPU.
type Event struct {
	Kind EventKind `json:"kind"`
	// GPU is the physical GPU, even if the event concerns one of its MIG devices. It is empty if
	// the event concerns the node.
	GPU UUID `json:"gpu,omitempty"`
	// GPUInstance and ComputeInstance are NoInstance for the whole GPU.
	GPUInstance     uint32 `json:"gpuInstance"`
	ComputeInstance uint32 `json:"computeInstance"`
	// XID is the number of the error in NVIDIA's XID catalogue.
	XID uint64 `json:"xid,omitempty"`
}

// GPUEvent returns an event that concerns the whole GPU with this UUID.
func GPUEvent(kind EventKind, id UUID) Event { //nolint:revive // not NodeEvent
	return Event{Kind: kind, GPU: id, GPUInstance: NoInstance, ComputeInstance: NoInstance}
}

// NodeEvent returns an event that concerns the node.
func NodeEvent(kind EventKind) Event { return GPUEvent(kind, "") }
