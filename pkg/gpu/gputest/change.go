package gputest

import (
	"time"

	"outrigger.dev/pkg/gpu"
)

// SetNode replaces the node and forgets lost GPUs. Watches get the events of gpu.Changes.
func (f *Fake) SetNode(node *gpu.Node) {
	f.mu.Lock()
	defer f.mu.Unlock()
	was := f.view()
	f.node, f.lost = clone(node), map[gpu.UUID]bool{}
	f.post(gpu.Changes(was, f.view())...)
}

// Partition replaces the MIG devices of the GPU id (see the function Partition). Watches get
// EventMIGChanged.
func (f *Fake) Partition(id gpu.UUID, profiles ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	Partition(f.node, f.gpu(id).Index, profiles...)
	f.post(gpu.GPUEvent(gpu.EventMIGChanged, id))
}

// SetFabric sets the NVLink fabric of the GPU id, or removes it if fabric is nil. Watches get
// EventTopologyChanged.
func (f *Fake) SetFabric(id gpu.UUID, fabric *gpu.Fabric) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if fabric != nil {
		own := *fabric
		fabric = &own
	}
	f.gpu(id).Fabric = fabric
	f.post(gpu.NodeEvent(gpu.EventTopologyChanged))
}

// Post sends an event to the running Watches.
func (f *Fake) Post(e gpu.Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.post(e)
}

// PostXID sends an XID of the whole GPU id to the running Watches.
func (f *Fake) PostXID(id gpu.UUID, xid uint64) {
	f.PostInstanceXID(id, gpu.NoInstance, gpu.NoInstance, xid)
}

// PostInstanceXID sends an XID of one MIG device of the GPU id to the running Watches. If ci is
// gpu.NoInstance, the XID concerns the whole GPU instance gi.
func (f *Fake) PostInstanceXID(id gpu.UUID, gi, ci uint32, xid uint64) {
	f.Post(gpu.Event{Kind: gpu.EventXID, GPU: id, GPUInstance: gi, ComputeInstance: ci, XID: xid})
}

// Lose makes the GPU id stop answering. Watches get EventLost.
func (f *Fake) Lose(id gpu.UUID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lost[id] = true
	f.post(gpu.GPUEvent(gpu.EventLost, id))
}

// Heal makes a lost GPU answer again. Watches get EventTopologyChanged.
func (f *Fake) Heal(id gpu.UUID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.lost, id)
	f.post(gpu.NodeEvent(gpu.EventTopologyChanged))
}

// SetDriver turns the node's driver on or off. While it is off, Snapshot and Watch return
// gpu.ErrNoDriver, and running Watches end with this error.
func (f *Fake) SetDriver(on bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.driver = on
	if !on {
		f.endWatches(f.failure())
	}
}

// SetError makes Snapshot and Watch fail with err until it is set to nil.
func (f *Fake) SetError(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.err = err
	if err != nil {
		f.endWatches(err)
	}
}

// SetHealth makes Health return err.
func (f *Fake) SetHealth(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.health = err
}

// HangsIn returns five seconds, because SetHealth may be called at any time.
func (f *Fake) HangsIn() time.Duration { return 5 * time.Second }

// Health returns the error of the last SetHealth.
func (f *Fake) Health() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.health
}
