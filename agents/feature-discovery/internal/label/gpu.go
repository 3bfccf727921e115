package label

import (
	"outrigger.dev/pkg/config"
	"outrigger.dev/pkg/gpu"
)

// gpuPrefix is the prefix of the labels of the subject. If there are several products,
// productsPrefix and the product's name are the prefix of each product's labels.
const (
	gpuPrefix      = "gpu."
	productsPrefix = "gpu.product-"
)

// The suffixes of a product's name in the value of a label.
const (
	shared  = "-SHARED"
	divided = "-MIG-"
	invalid = "-MIG-INVALID"
)

// subject sets the labels nvidia.com/gpu.* of the hardware.
func (l labels) subject(s subject, a advertised) {
	l.architecture(gpuPrefix, s.product)
	switch {
	case s.invalid:
		l.put(gpuPrefix+"product", fit(s.product.name, invalid, maxText))
		l.put(gpuPrefix+"sharing-strategy", "")
		for _, name := range []string{"count", "replicas", "memory"} {
			l.number(gpuPrefix+name, 0)
		}
	case len(s.devices) > 0:
		l.class(gpuPrefix, s.devices, len(s.devices), a.share(s.devices.places(), config.GPUResource))
	default:
		l.put(gpuPrefix+"product", fit(s.product.name, l.gpus(gpuPrefix, s.product, a).suffix(), maxText))
		if s.whole {
			l.number(gpuPrefix+"count", len(s.product.whole()))
		}
	}
}

// product sets the labels of the whole GPUs of one product, on a node with several products.
// These GPUs may differ from the GPUs that are advertised as nvidia.com/gpu.
func (l labels) product(p *product, a advertised) {
	prefix := productPrefix(p.name)
	l.architecture(prefix, p)
	l.gpus(prefix, p, a)
}

// productNames returns the label names that follow the prefix of a product.
func productNames() []string {
	return []string{"compute.major", "compute.minor", "count", "family", "memory", "replicas", "sharing-strategy"}
}

// productPrefix returns the prefix of the labels of a product. It is short enough for the
// longest of productNames.
func productPrefix(name string) string {
	longest := 0
	for _, n := range productNames() {
		longest = max(longest, len(n))
	}
	return productsPrefix + fit(name, "", maxText-len(productsPrefix)-len(".")-longest) + "."
}

// gpus sets the labels of whole GPUs except their name.
func (l labels) gpus(prefix string, p *product, a advertised) share {
	s := a.share(p.whole(), config.GPUResource)
	l.number(prefix+"count", len(p.gpus))
	l.share(prefix, s)
	l.memory(prefix+"memory", p.memory())
	return s
}

func (l labels) share(prefix string, s share) {
	l.number(prefix+"replicas", s.replicas)
	l.put(prefix+"sharing-strategy", string(s.strategy))
}

// suffix returns the suffix of the product's name: -SHARED if the sharing is unmarked, and
// otherwise "".
func (s share) suffix() string {
	if s.unmarked {
		return shared
	}
	return ""
}

// architecture sets the labels of the compute capability.
func (l labels) architecture(prefix string, p *product) {
	cc := p.capability()
	l.version(prefix+"compute.major", prefix+"compute.minor", cc)
	if cc.Major > 0 {
		l.put(prefix+"family", family(cc))
	}
}

// family returns the architecture of a compute capability, with the names of NVIDIA's feature
// discovery. It also has 11.0 (Jetson Thor), which NVIDIA's feature discovery lacks.
func family(cc gpu.Version) string {
	switch cc.Major {
	case 1:
		return "tesla"
	case 2:
		return "fermi"
	case 3:
		return "kepler"
	case 5:
		return "maxwell"
	case 6:
		return "pascal"
	case 7:
		if cc.Minor < 5 {
			return "volta"
		}
		return "turing"
	case 8:
		if cc.Minor < 9 {
			return "ampere"
		}
		return "ada-lovelace"
	case 9:
		return "hopper"
	case 10, 11, 12:
		return "blackwell"
	case 13:
		return "rubin"
	default:
		return "undefined"
	}
}
