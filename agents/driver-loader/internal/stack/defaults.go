package stack

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"outrigger.dev/pkg/pci"
)

// coherentMode is the parameter that decides who manages the memory of GPUs that are coupled to a Grace CPU:
// the kernel, as memory of the node, or the driver. With the kernel, programs without a GPU could use the
// memory of GPUs.
const coherentMode = "NVreg_CoherentGPUMemoryMode"

// WithDefaults returns parameters with the default for GPUs that are coupled to a Grace CPU: the driver
// manages their memory. NVIDIA's driver container sets this, too. Drivers have the parameter since
// 580.65.06.
func WithDefaults(params Params, version string, gpus []pci.Device) Params {
	set := slices.ContainsFunc(params[Core], func(param string) bool { return strings.HasPrefix(param, coherentMode+"=") })
	coupled := slices.ContainsFunc(gpus, func(g pci.Device) bool { return graceCoupled(g.Product) })
	if set || !coupled || !atLeast(version, 580, 65, 6) {
		return params
	}
	out := Params{}
	maps.Copy(out, params)
	out[Core] = append(slices.Clone(params[Core]), coherentMode+"=driver")
	return out
}

// CoherentDefault reports whether WithDefaults has set the mode of coherent memory.
func CoherentDefault(before, after Params) bool { return len(after[Core]) > len(before[Core]) }

// graceCoupled reports whether a GPU is coupled to a Grace CPU: GH200, GB200 or GB300. The products are
// from the default configs of NVIDIA's MIG manager.
func graceCoupled(product uint16) bool {
	return graceHopper(product) || product&0xfff0 == 0x2940 || product&0xfff0 == 0x31c0
}

// atLeast reports whether the version of a driver is not older than the given one.
func atLeast(version string, given ...int) bool {
	parts := strings.Split(version, ".")
	for i, want := range given {
		if i >= len(parts) {
			return false
		}
		is, err := strconv.Atoi(parts[i])
		if err != nil || is != want {
			return err == nil && is > want
		}
	}
	return true
}
