package label

import (
	"strings"

	"outrigger.dev/pkg/config"
	"outrigger.dev/pkg/gpu"
)

// profile sets the labels of the MIG devices of one profile, with the prefix
// nvidia.com/mig-<profile>. for the MIG strategy mixed. The count includes all such devices,
// because they are one resource. If they belong to several products, the other labels describe
// the product with the most devices.
//
// It also sets the labels of devices that are advertised under another name: the labels describe
// the hardware of the node, and only replicas and sharing-strategy its advertisement.
func (l labels) profile(c class, a advertised) {
	own := config.MIGResource(c[0].Profile)
	prefix := strings.TrimPrefix(own, config.Domain) + "."
	l.class(prefix, largest(kinds(c)), len(c), a.share(c.places(), own))
}

// class sets the labels of similar MIG devices. The parameter count is the number of devices,
// and the class c describes their product, memory and engines.
func (l labels) class(prefix string, c class, count int, s share) {
	l.put(prefix+"product", fit(c[0].product.name, divided+config.ProfileName(c[0].Profile)+s.suffix(), maxText))
	l.number(prefix+"count", count)
	l.share(prefix, s)
	l.memory(prefix+"memory", c.memory())
	l.engines(prefix, c.engines())
}

// engines sets the labels of the parts of a MIG device. It sets no labels for the zero value,
// which means unknown, because each device has at least one multiprocessor.
func (l labels) engines(prefix string, e gpu.Engines) {
	if e == (gpu.Engines{}) {
		return
	}
	for name, n := range map[string]int{
		"multiprocessors": e.Multiprocessors,
		"slices.gi":       e.GPUInstanceSlices,
		"slices.ci":       e.ComputeInstanceSlices,
		"engines.copy":    e.Copy,
		"engines.decoder": e.Decoder,
		"engines.encoder": e.Encoder,
		"engines.jpeg":    e.JPEG,
		"engines.ofa":     e.OFA,
	} {
		l.number(prefix+name, n)
	}
}
