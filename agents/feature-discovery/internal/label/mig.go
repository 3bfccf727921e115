package label

import (
	"strings"

	"outrigger.dev/pkg/config"
	"outrigger.dev/pkg/gpu"
)

// profile sets the labels of the MIG devices of one profile, which have the
// prefix nvidia.com/mig-<profile>. where the MIG strategy is mixed. The count is
// that of all such devices, as they are one resource; if they are of several
// products the others tell of that with most of them.
//
// Devices that are offered under another name have the labels of their profile
// too: they say what is on the node, and replicas how it is offered.
func (l labels) profile(c class, o offers) {
	own := config.MIGResource(c[0].Profile)
	prefix := strings.TrimPrefix(own, config.Domain) + "."
	l.class(prefix, largest(kinds(c)), len(c), o.share(c.places(), own))
}

// class sets the labels of count MIG devices that are like those of a class.
func (l labels) class(prefix string, c class, count int, s share) {
	l.put(prefix+"product", fit(c[0].product.name, divided+clean(c[0].Profile.String())+s.suffix(), maxText))
	l.number(prefix+"count", count)
	l.share(prefix, s)
	l.memory(prefix+"memory", c.memory())
	l.engines(prefix, c.engines())
}

// engines sets the labels of the parts of a MIG device, unless they are not
// known: each device has at least a multiprocessor.
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
