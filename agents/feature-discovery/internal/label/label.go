// Package label derives the labels of a node from what is known of its GPUs: a
// pure function of the node, the config, the machine and the PCI bus.
//
// The labels are those of NVIDIA's GPU feature discovery, with its values for
// all that can be said in its config. It has one subject a file: how GPUs and
// MIG devices are grouped (hardware.go) and offered (offer.go), which of them
// nvidia.com/gpu is (subject.go), the labels of both (gpu.go, mig.go), those of
// the driver (driver.go) and of the PCI bus (bus.go), and what a label may hold
// (text.go).
package label

import (
	"strconv"

	"outrigger.dev/pkg/config"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/pci"
)

// Facts is what labels are made of.
type Facts struct {
	// Node is what the driver showed, in the last look that succeeded.
	Node   *gpu.Node
	Config config.Config
	// Machine is the product name in the DMI tables, "" if there is none.
	Machine string
	// PCI has NVIDIA's devices, ordered by bus id.
	PCI []pci.Device
}

// Of returns the labels of a node, but for those of Presence and that of the time,
// which is for who publishes them. They are valid for Kubernetes whatever the
// hardware calls itself, and do not depend on the order in which GPUs are listed.
//
// Of a driver that shows no GPU there is only vgpu.present. What is not known has
// no label, but for gpu.machine and gpu.mode, which are "unknown". A GPU that fails
// counts as long as its name is known, and does not change the labels of others.
//
// gpu.count, mig-<profile>.count and memory tell of the hardware; product,
// replicas and sharing-strategy tell how it is offered, which resource.Derive
// decides. Their rules are at subject and offers.share.
func Of(f Facts) map[string]string {
	l := labels{}
	if len(f.Node.GPUs) == 0 {
		l.vgpu(f.PCI)
		return l
	}
	l.bus(f)
	l.driver(f.Node.Driver)
	l.clique(f.Node.GPUs)
	l.hardware(newHardware(f.Node), f.Config, newOffers(f.Node, f.Config))
	return l
}

// hardware sets the labels of the GPUs and MIG devices.
func (l labels) hardware(h hardware, c config.Config, o offers) {
	l.put("mps.capable", strconv.FormatBool(o.mps()))
	if c.MIGStrategy == config.MIGStrategySingle || c.MIGStrategy == config.MIGStrategyMixed {
		l.put("mig.strategy", string(c.MIGStrategy))
	}
	if len(h.products) == 0 {
		// Of no GPU more is known than that it is there.
		return
	}
	if capable, known := h.migCapable(); known {
		l.put("mig.capable", strconv.FormatBool(capable))
	}
	l.subject(newSubject(h, c, o), o)
	if len(h.products) > 1 {
		for _, p := range h.products {
			l.product(p, o)
		}
	}
	if c.MIGStrategy == config.MIGStrategyMixed {
		for _, class := range profiles(h.devices) {
			l.profile(class, o)
		}
	}
}

// labels are keys and values.
type labels map[string]string

// put sets a label of NVIDIA's domain. The value is valid.
func (l labels) put(name, value string) { l[config.Domain+name] = value }

// text sets a label to what can be told of a text in it, if there is something.
func (l labels) text(name, value string) {
	if v := fit(clean(value), "", maxText); v != "" {
		l.put(name, v)
	}
}

// number sets a label to a number, which is negative if it is not known.
func (l labels) number(name string, n int) {
	if n >= 0 {
		l.put(name, strconv.Itoa(n))
	}
}

// version sets the labels of a version's major and minor number. Kubernetes'
// affinities compare numbers, not versions.
func (l labels) version(major, minor string, v gpu.Version) {
	if v.Major > 0 {
		l.number(major, v.Major)
		l.number(minor, v.Minor)
	}
}

// memory sets a label to bytes in MiB, unless they are not known: GPUs that
// share the memory of the node do not tell how much is theirs.
func (l labels) memory(name string, bytes uint64) {
	if bytes > 0 {
		l.put(name, strconv.FormatUint(bytes>>20, 10))
	}
}
