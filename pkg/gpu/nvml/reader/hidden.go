package reader

import (
	"fmt"
	"slices"
	"time"

	"outrigger.dev/pkg/driverproc"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/nvml"
)

// hiddenGPU is a GPU that the kernel driver has, and that NVML does not show.
type hiddenGPU struct {
	busID, node string
	// denied is set if this process had no permission to use the device node.
	denied bool
}

// late reports whether NVML may show a GPU now that it did not show when it was initialized: a GPU
// whose device node this process may now use, or a GPU that the driver was still adding. NVML is
// initialized again only once for a GPU of the second kind, because NVML may have another reason not to
// show the GPU.
func (v *view) late(h hiddenGPU) bool {
	if nvml.Access(h.node) != nil {
		return false
	}
	return h.denied || !v.repeated[h.busID] && time.Since(v.begun) >= v.settle
}

// warnHidden remembers, once in a span, the GPUs that NVML does not show. It logs the GPUs whose device
// nodes this process has no permission to use.
func (v *view) warnHidden(node *gpu.Node) {
	v.hidden.Do(func() {
		hidden, reasons := hiddenGPUs(v.proc, v.span.Present(), node)
		v.lacks.Store(&hidden)
		if len(reasons) > 0 {
			v.log.Warn("gpus are hidden from this process", "reasons", reasons, "fix", nvml.AccessFix())
		}
	})
}

// hiddenIDs returns the bus IDs of the GPUs that NVML does not show to this process.
func (v *view) hiddenIDs() []string {
	var out []string
	for _, h := range v.lacking() {
		if h.denied {
			out = append(out, h.busID)
		}
	}
	return out
}

// lacking returns the GPUs that NVML does not show. It returns none before the first reading.
func (v *view) lacking() []hiddenGPU {
	if hidden := v.lacks.Load(); hidden != nil {
		return *hidden
	}
	return nil
}

// hiddenGPUs returns the GPUs that the kernel driver had when NVML was initialized, and that NVML does
// not show. reasons says which device nodes this process has no permission to use.
func hiddenGPUs(proc driverproc.Root, present []string, node *gpu.Node) (hidden []hiddenGPU, reasons []string) {
	for _, id := range present {
		if slices.ContainsFunc(node.GPUs, func(g gpu.GPU) bool { return g.PCI.BusID == id }) {
			continue
		}
		p, err := proc.GPU(id)
		if err != nil || p.Minor == driverproc.NoMinor || isDisplay(p.Name) {
			continue
		}
		h := hiddenGPU{busID: id, node: fmt.Sprintf("/dev/nvidia%d", p.Minor)}
		if err := nvml.Access(h.node); err != nil {
			h.denied, reasons = true, append(reasons, err.Error())
		}
		hidden = append(hidden, h)
	}
	slices.Sort(reasons)
	return hidden, reasons
}
