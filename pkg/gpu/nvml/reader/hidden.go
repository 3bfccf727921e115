package reader

import (
	"fmt"
	"slices"

	"outrigger.dev/pkg/driverproc"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/nvml"
)

func isAccessible(node string) bool { return nvml.Access(node) == nil }

// warnHidden logs, once in a span, the GPUs that NVML does not show to this process, and remembers
// their device nodes.
func (v *view) warnHidden(node *gpu.Node) {
	v.hidden.Do(func() {
		nodes, reasons := hiddenGPUs(v.proc, v.span.Present(), node)
		v.lacks.Store(&nodes)
		if len(reasons) > 0 {
			v.log.Warn("gpus are hidden from this process", "reasons", reasons, "fix", nvml.AccessFix())
		}
	})
}

// hiddenGPUs returns the device nodes that this process may not use, with the reasons. NVML does
// not show their GPUs, although the kernel driver has them. The result omits GPUs that NVML does
// not show for other reasons.
func hiddenGPUs(proc driverproc.Root, present []string, node *gpu.Node) (nodes, reasons []string) {
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
			nodes, reasons = append(nodes, path), append(reasons, err.Error())
		}
	}
	slices.Sort(reasons)
	return nodes, reasons
}
