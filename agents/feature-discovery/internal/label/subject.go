package label

import (
	"slices"

	"outrigger.dev/pkg/config"
)

// subject is what the labels nvidia.com/gpu.* tell of: whole GPUs of one product,
// or MIG devices of one product and profile; all of them that are on the node.
//
// It is what a request for nvidia.com/gpu gets. With the MIG strategies none and
// mixed these are whole GPUs, unless the config gives the name to MIG devices
// alone; with single these are MIG devices where the node has some. As in
// NVIDIA's feature discovery GPUs in MIG mode count as GPUs of their product and
// not as offered, also where they are, with the strategy none: replicas is 0 if
// all GPUs of the product are in MIG mode.
//
// On a node that does not suit the strategy single, since some GPUs are divided
// and others not, or differently, NVIDIA's feature discovery says
// <product>-MIG-INVALID and count 0, as its device plugin offers nothing there.
// Ours offers the devices of one class, and the labels tell of that class: those
// that denied it would hide from schedulers and autoscalers what the kubelet
// counts. INVALID is left for a node on which all GPUs are in MIG mode and none
// has a MIG device: there is nothing to offer.
//
// Of several products the one with most GPUs on the node is the subject, first
// among those with a GPU that is nvidia.com/gpu, then with one that is offered at
// all, then among all; of several classes of MIG devices the one with most
// devices. Among equals it is what comes first on the node.
type subject struct {
	product *product
	// devices is empty where the subject is whole GPUs.
	devices class
	// invalid says that the strategy single has nothing to offer.
	invalid bool
}

func newSubject(h hardware, c config.Config, o offers) subject {
	single := c.MIGStrategy == config.MIGStrategySingle
	for i, is := range []func(place string) bool{
		func(place string) bool { return o.byPlace[place].name == config.GPUResource },
		func(place string) bool { _, ok := o.byPlace[place]; return ok },
		func(string) bool { return true },
	} {
		if p := h.largest(func(p *product) bool { return slices.ContainsFunc(p.whole(), is) }); p != nil {
			return subject{product: p}
		}
		// With single a MIG device is nvidia.com/gpu but for sharing and filters.
		if i > 0 && !single {
			continue
		}
		if these := h.where(func(d migDevice) bool { return is(d.place) }); len(these) > 0 {
			first := largest(kinds(these))[0]
			return subject{product: first.product, devices: h.where(first.like)}
		}
	}
	return subject{product: h.largest(func(*product) bool { return true }), invalid: single}
}
