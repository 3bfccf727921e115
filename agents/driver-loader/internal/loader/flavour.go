package loader

import (
	"slices"
	"strconv"
	"strings"

	"outrigger.dev/agents/driver-loader/internal/payload"
	"outrigger.dev/agents/driver-loader/internal/stack"
	"outrigger.dev/pkg/cause"
	"outrigger.dev/pkg/pci"
)

// firstOpen is the first driver branch that NVIDIA recommends with the open modules.
const firstOpen = 560

// auto returns the flavour for a driver without a configured type: the only one that it has, or the
// one that the GPUs require, or NVIDIA's recommendation.
func (o Observation) auto(p payload.Payload) payload.Flavour {
	if has := p.Flavours(o.Kernel.Release); len(has) == 1 {
		return has[0]
	}
	open, _ := o.Unsupported(payload.Open)
	proprietary, _ := o.Unsupported(payload.Proprietary)
	switch {
	case len(open) == 0 && len(proprietary) > 0:
		return payload.Open
	case len(open) > 0 && len(proprietary) == 0:
		return payload.Proprietary
	}
	branch, _, _ := strings.Cut(p.Version, ".")
	if n, err := strconv.Atoi(branch); err == nil && n < firstOpen {
		return payload.Proprietary
	}
	return payload.Open
}

// Unsupported returns the reasons why GPUs do not work with the modules of a flavour. The result all is set if no GPU works
// with them. GPUs of virtual machines do not count.
func (o Observation) Unsupported(f payload.Flavour) (reasons []string, all bool) {
	gpus := o.hostGPUs()
	for _, g := range gpus {
		if why := stack.Unsupported(f, g); why != "" {
			reasons = append(reasons, g.BusID+": "+why)
		}
	}
	return reasons, len(reasons) > 0 && len(reasons) == len(gpus)
}

// hostGPUs returns the GPUs that are not passed through to virtual machines.
func (o Observation) hostGPUs() []pci.Device {
	return slices.DeleteFunc(o.GPUs(), func(g pci.Device) bool { return passedThrough(g) })
}

// passedThrough reports whether a GPU is reserved for virtual machines.
func passedThrough(g pci.Device) bool {
	return slices.Contains([]string{"vfio-pci", "nvgrace_gpu_vfio_pci"}, g.Driver)
}

// obstacles returns the causes that prevent loading a driver on this node. They are known before the
// node is changed.
func (o Observation) obstacles(target Driver) []cause.Cause {
	causes := o.Foreign()
	if reasons, all := o.Unsupported(target.Flavour); all {
		causes = append(causes, FlavourCause(target, reasons))
	}
	return causes
}
