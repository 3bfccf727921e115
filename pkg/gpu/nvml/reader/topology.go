package reader

import (
	"cmp"
	"context"
	"fmt"

	gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"

	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/nvml"
	"outrigger.dev/pkg/pci"
)

// nvlinks counts the active NVLinks of one GPU by their destination.
type nvlinks struct {
	// peers by PCI bus ID.
	peers    map[string]int
	switches int
	// err is the first failed call, except for calls that fail because the link does not exist.
	err error
}

// Links reads the links of the working GPUs of a snapshot.
func (r *Reader) Links(ctx context.Context, n *gpu.Node) ([]gpu.Link, error) {
	links, err := nvml.Use(ctx, r.cfg.Session, func(_ context.Context, span *nvml.Span) ([]gpu.Link, error) {
		return r.view(span).links(ctx, n)
	})
	if err != nil {
		err = fmt.Errorf("read links between GPUs: %w", err)
	}
	return links, err
}

// links returns the link of each pair of working GPUs. It reads the NVLinks of each GPU once. The
// error is the first failed call. It does not mean that the driver is gone, because the next
// snapshot detects that.
func (v *view) links(ctx context.Context, n *gpu.Node) ([]gpu.Link, error) {
	var working []device
	for _, g := range n.GPUs {
		if g.Fault != nil {
			continue
		}
		at, err := v.position(ctx, g.UUID)
		if err != nil {
			return nil, nvml.Fault(err)
		}
		if at < 0 {
			continue // it has gone since the snapshot
		}
		h, err := v.handle(at)
		if err != nil {
			return nil, nvml.Fault(err)
		}
		working = append(working, device{handle: h, gpu: g})
	}
	if len(working) < 2 {
		return nil, nil
	}
	nv := make([]nvlinks, len(working))
	for i, d := range working {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		nv[i] = v.nvlinks(d.handle)
	}
	links, failed := pairLinks(working, nv)
	for i := range nv {
		failed = cmp.Or(failed, nv[i].err)
	}
	if failed != nil {
		return links, nvml.Fault(failed)
	}
	return links, nil
}

// position returns NVML's index of a GPU, which may differ from the index of the GPU, or -1 if NVML
// does not list the GPU.
func (v *view) position(ctx context.Context, id gpu.UUID) (int, error) {
	at, known := v.memory.position(id)
	if known {
		return at, nil
	}
	if _, err := v.devices(ctx, true); err != nil { // NVML was initialized since the snapshot
		return -1, err
	}
	if at, known = v.memory.position(id); known {
		return at, nil
	}
	return -1, nil
}

// pairLinks returns the link of each pair of GPUs. It reads the level on the PCI tree only for
// pairs whose level does not follow from other pairs. The error is the first failed call.
func pairLinks(working []device, nv []nvlinks) (links []gpu.Link, failed error) {
	met := ancestorLevels{}
	for a := range working {
		for b := a + 1; b < len(working); b++ {
			link := join(working[a].gpu, working[b].gpu, nv[a], nv[b])
			level, known := met.between(a, b)
			if !known {
				var err error
				level, err = working[a].handle.CommonAncestor(working[b].handle)
				known = err == nil
				failed = cmp.Or(failed, unexpected(err))
			}
			if known {
				met[[2]int{a, b}] = level
				link.Path = pathOf(level)
			}
			links = append(links, link)
		}
	}
	return links, failed
}

// unexpected returns err, or nil if err means that the value does not exist.
func unexpected(err error) error {
	if err == nil || unsupported(err) || nvml.Code(err) == gonvml.ERROR_INVALID_ARGUMENT {
		return nil
	}
	return err
}

// join returns the link of two GPUs, without its path.
func join(a, b gpu.GPU, fromA, fromB nvlinks) gpu.Link {
	return gpu.Link{
		A:        a.Index,
		B:        b.Index,
		NVLinks:  fromA.peers[b.PCI.BusID],
		NVSwitch: min(fromA.switches, fromB.switches),
	}
}

// nvlinks reads the NVLinks of one GPU.
func (v *view) nvlinks(h nvml.Device) nvlinks {
	n := nvlinks{peers: map[string]int{}}
	states, err := linkStates(h)
	n.err = err
	for link, active := range states {
		if active {
			v.count(h, link, &n)
		}
	}
	return n
}

// linkStates reports for each NVLink of a GPU whether it is active. Newer drivers answer for all
// links in one call.
func linkStates(h nvml.Device) ([]bool, error) {
	values := make([]gonvml.FieldValue, gonvml.NVLINK_MAX_LINKS)
	for link := range values {
		values[link] = gonvml.FieldValue{FieldId: gonvml.FI_DEV_NVLINK_GET_STATE, ScopeId: uint32(link)}
	}
	if err := h.FieldValues(values); err == nil && gonvml.Return(values[0].NvmlReturn) == gonvml.SUCCESS {
		out := make([]bool, len(values))
		for link, value := range values {
			// A sleeping link counts as active, because it wakes up when there is data to send.
			out[link] = gonvml.Return(value.NvmlReturn) == gonvml.SUCCESS && fieldNumber(value) != gonvml.NVLINK_STATE_INACTIVE
		}
		return out, nil
	}
	out := make([]bool, 0, gonvml.NVLINK_MAX_LINKS)
	for link := range gonvml.NVLINK_MAX_LINKS {
		state, err := h.NVLinkState(link)
		if err != nil && (nvml.Code(err) != gonvml.ERROR_NOT_SUPPORTED || link == 0) {
			return out, unexpected(err) // behind the last one, or a GPU without NVLink
		}
		// A link that is not wired is not supported.
		out = append(out, err == nil && state == gonvml.FEATURE_ENABLED)
	}
	return out, nil
}

// count adds an active NVLink to n. If the first link leads to a switch, count does not ask for the
// other links, because all links of such a GPU lead to switches. It does not distinguish switches. If a
// driver does not report the remote type of a link, a switch appears as a bridge on the PCI bus.
func (v *view) count(h nvml.Device, link int, n *nvlinks) {
	if n.switches > 0 && len(n.peers) == 0 {
		n.switches++
		return
	}
	kind, err := h.NVLinkRemoteType(link)
	reported := err == nil
	if reported && kind == gonvml.NVLINK_DEVICE_TYPE_SWITCH {
		n.switches++
		return
	}
	n.err = cmp.Or(n.err, unexpected(err))
	remote, err := h.NVLinkRemotePCIInfo(link)
	if err != nil {
		n.err = cmp.Or(n.err, unexpected(err))
		return
	}
	if id := nvml.PCI(remote).BusID; !reported && isBridge(v.sysRoot, id) {
		n.switches++
	} else {
		n.peers[id]++
	}
}

// isBridge reports whether a PCI device has the class "other bridge".
func isBridge(sysRoot, busID string) bool {
	class, err := pci.Class(sysRoot, busID)
	return err == nil && class>>8 == 0x0680
}

// pathOf returns NVML's level in the terms of package gpu.
func pathOf(level gonvml.GpuTopologyLevel) gpu.Path {
	switch level {
	case gonvml.TOPOLOGY_INTERNAL:
		return gpu.PathBoard
	case gonvml.TOPOLOGY_SINGLE:
		return gpu.PathSwitch
	case gonvml.TOPOLOGY_MULTIPLE:
		return gpu.PathSwitches
	case gonvml.TOPOLOGY_HOSTBRIDGE:
		return gpu.PathHostBridge
	case gonvml.TOPOLOGY_NODE:
		return gpu.PathNUMANode
	case gonvml.TOPOLOGY_SYSTEM:
		return gpu.PathSystem
	default:
		return gpu.PathUndetermined
	}
}
