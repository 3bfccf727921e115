package label

import (
	"slices"

	"outrigger.dev/pkg/config"
)

// subject is what the labels nvidia.com/gpu.* describe: all whole GPUs of one
// product, or all MIG devices of one product and profile.
//
// A request for nvidia.com/gpu gets one of them. With the MIG strategies none and
// mixed these are whole GPUs, unless the config gives the name only to MIG devices.
// With single these are MIG devices if the node has some. As in NVIDIA's feature
// discovery, GPUs in MIG mode count as GPUs of their product and not as advertised,
// even with the strategy none, which advertises them: replicas is 0 if all GPUs of
// the product are in MIG mode.
//
// If the GPUs of a node are not partitioned alike, the strategy single does not fit.
// NVIDIA's feature discovery then sets <product>-MIG-INVALID and count 0, because its
// device plugin advertises nothing there. Our device plugin advertises the devices of
// one class, and the labels describe that class and count its devices, so that
// schedulers and autoscalers see what the kubelet counts. INVALID remains for a node on which all GPUs are in MIG
// mode and none has a MIG device, so that there is nothing to advertise.
//
// Among several products, the subject is the one with the most GPUs on the node:
// first among those with a GPU that is nvidia.com/gpu, then among those with a GPU
// that is advertised at all, then among all. Among several classes of MIG devices, it
// is the one with the most devices. Among equals, it is the first on the node.
type subject struct {
	product *product
	// devices is empty if the subject is whole GPUs.
	devices class
	// whole is set if the count has no GPUs in MIG mode: with the strategy single, these
	// are not devices like those that the labels describe.
	whole bool
	// invalid is set if the strategy single has nothing to advertise.
	invalid bool
}

func newSubject(h hardware, c config.Config, a advertised) subject {
	single := c.MIGStrategy == config.MIGStrategySingle
	for i, is := range []func(place string) bool{
		func(place string) bool { return a.byPlace[place].name == config.GPUResource },
		func(place string) bool { _, ok := a.byPlace[place]; return ok },
		func(string) bool { return true },
	} {
		if p := h.largest(func(p *product) bool { return slices.ContainsFunc(p.whole(), is) }); p != nil {
			return subject{product: p, whole: single}
		}
		// With single, a MIG device is nvidia.com/gpu, except for sharing and filters.
		if i > 0 && !single {
			continue
		}
		if these := h.devicesWhere(func(d migDevice) bool { return is(d.place) }); len(these) > 0 {
			first := largest(kinds(these))[0]
			return subject{product: first.product, devices: h.devicesWhere(first.sameClass)}
		}
	}
	return subject{product: h.largest(func(*product) bool { return true }), invalid: single}
}
