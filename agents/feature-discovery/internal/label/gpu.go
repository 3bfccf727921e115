package label

import (
	"outrigger.dev/pkg/config"
	"outrigger.dev/pkg/gpu"
)

// ofGPU is before the labels of the subject, and ofProduct, with the name of the
// product, before those of each product where there are several.
const (
	ofGPU     = "gpu."
	ofProduct = "gpu.product-"
)

// shared and the others end the value of a label that names a product.
const (
	shared  = "-SHARED"
	divided = "-MIG-"
	invalid = "-MIG-INVALID"
)

// subject sets the labels nvidia.com/gpu.* of hardware.
func (l labels) subject(s subject, o offers) {
	l.architecture(ofGPU, s.product)
	switch {
	case s.invalid:
		l.put(ofGPU+"product", fit(s.product.name, invalid, maxText))
		l.put(ofGPU+"sharing-strategy", "")
		for _, name := range []string{"count", "replicas", "memory"} {
			l.number(ofGPU+name, 0)
		}
	case len(s.devices) > 0:
		l.class(ofGPU, s.devices, len(s.devices), o.share(s.devices.places(), config.GPUResource))
	default:
		l.put(ofGPU+"product", fit(s.product.name, l.gpus(ofGPU, s.product, o).suffix(), maxText))
	}
}

// product sets the labels of one product among several: those of whole GPUs, of
// which the node may have others than those that nvidia.com/gpu is.
func (l labels) product(p *product, o offers) {
	prefix := productPrefix(p.name)
	l.architecture(prefix, p)
	l.gpus(prefix, p, o)
}

// productNames follow the prefix of a product.
func productNames() []string {
	return []string{"compute.major", "compute.minor", "count", "family", "memory", "replicas", "sharing-strategy"}
}

// productPrefix returns what is before the labels of a product. It leaves room
// for the longest of them.
func productPrefix(name string) string {
	longest := 0
	for _, n := range productNames() {
		longest = max(longest, len(n))
	}
	return ofProduct + fit(name, "", maxText-len(ofProduct)-len(".")-longest) + "."
}

// gpus sets what can be told of whole GPUs but for their name.
func (l labels) gpus(prefix string, p *product, o offers) share {
	s := o.share(p.whole(), config.GPUResource)
	l.number(prefix+"count", len(p.gpus))
	l.share(prefix, s)
	l.memory(prefix+"memory", p.memory())
	return s
}

func (l labels) share(prefix string, s share) {
	l.number(prefix+"replicas", s.replicas)
	l.put(prefix+"sharing-strategy", string(s.strategy))
}

// suffix returns what the name of a product ends with.
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

// family names the architecture of a compute capability as NVIDIA's feature
// discovery does, and the one of Jetson Thor, 11.0, which that does not know.
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
