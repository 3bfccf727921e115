package reader

import (
	"fmt"
	"slices"

	"outrigger.dev/pkg/driverproc"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/nvml"
)

func isAccessible(h hiddenGPU) bool { return nvml.Access(h.node) == nil }

// warnHidden logs, once in a span, the GPUs that NVML does not show to this process, and remembers
// them.
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
	if hidden := v.lacks.Load(); hidden != nil {
		for _, h := range *hidden {
			out = append(out, h.busID)
		}
	}
	return out
}

// hiddenGPU is a GPU whose device node this process may not use.
type hiddenGPU struct{ busID, node string }

// hiddenGPUs returns the GPUs whose device nodes this process has no permission to use, with the reasons. NVML does
// not show them, although the kernel driver has them. The result omits GPUs that NVML does
// not show for other reasons.
func hiddenGPUs(proc driverproc.Root, present []string, node *gpu.Node) (hidden []hiddenGPU, reasons []string) {
	for _, id := range present {
		if slices.ContainsFunc(node.GPUs, func(g gpu.GPU) bool { return g.PCI.BusID == id }) {
			continue
		}
		p, err := proc.GPU(id)
		if err != nil || p.Minor == driverproc.NoMinor || isDisplay(p.Name) {
			continue
		}
		path := fmt.Sprintf("/dev/nvidia%d", p.Minor)
		if err := nvml.Access(path); err != nil {
			hidden, reasons = append(hidden, hiddenGPU{id, path}), append(reasons, err.Error())
		}
	}
	slices.Sort(reasons)
	return hidden, reasons
}
