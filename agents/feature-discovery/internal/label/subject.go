package label

import (
	"slices"

	"outrigger.dev/pkg/config"
)

// subject has the devices that the labels nvidia.com/gpu.* describe: all whole GPUs of one
// product, or all MIG devices of one product and profile.
//
// A request for nvidia.com/gpu gets one of these devices. With the MIG strategies none and mixed,
// they are whole GPUs, unless the config assigns the name only to MIG devices. With single, they
// are the whole GPUs or the class of MIG devices that resource.Derive advertises. As in NVIDIA's
// feature discovery, GPUs in MIG mode count as GPUs of their product, but not as advertised, even
// if the strategy none advertises them: replicas is 0 if all GPUs of the product are in MIG mode.
//
// If the GPUs of a node have different partitions, the strategy single does not fit. NVIDIA's
// feature discovery then sets <product>-MIG-INVALID and count 0, because its device plugin
// advertises nothing there. Our device plugin advertises the devices of one class. The labels
// describe that class and count its devices, so that schedulers and autoscalers see the same
// numbers as the kubelet. INVALID is used only if all GPUs are in MIG mode without a MIG device,
// so that the node has no device to advertise.
//
// Among several products, the subject is the product with the most GPUs on the node. Products
// with a GPU that is advertised as nvidia.com/gpu take precedence, then products with a GPU that
// is advertised under another name. Among several classes of MIG devices, the subject is the class with the
// most devices. Among equals, it is the first on the node.
type subject struct {
	product *product
	// devices is empty if the subject has whole GPUs.
	devices class
	// whole is set if the count excludes GPUs in MIG mode. This is so with the strategy single,
	// because their MIG devices are not like the GPUs that the labels describe.
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
		// With single, MIG devices are advertised as nvidia.com/gpu, unless sharing renames them
		// or filters exclude them.
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
