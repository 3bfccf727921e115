// Package label derives the labels of a node: a pure function of the node's GPUs,
// the config, the machine and the PCI bus.
//
// The labels are those of NVIDIA's GPU feature discovery, with the same values for
// every config that it supports. The files are: how GPUs and MIG devices are grouped
// (hardware.go) and advertised (advertised.go), which of them are nvidia.com/gpu
// (subject.go), the labels of both (gpu.go, mig.go), of the driver (driver.go) and of
// the PCI bus (bus.go), and what a label may contain (text.go).
package label

import (
	"strconv"

	"outrigger.dev/pkg/config"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/pci"
)

// Facts is the input of Derive.
type Facts struct {
	// Node is what the driver reported in the last successful refresh.
	Node   *gpu.Node
	Config config.Config
	// Machine is the product name in the DMI tables, "" if they have none.
	Machine string
	// PCI lists NVIDIA's devices, ordered by bus id.
	PCI []pci.Device
}

// Derive returns the labels of a node, except those of Presence and the timestamp, which
// the publisher sets. The labels are valid for Kubernetes whatever the names of the
// hardware, and do not depend on the order of the GPUs.
//
// If the driver lists no GPU, the only label is vgpu.present. A property that is not
// known has no label, except gpu.machine and gpu.mode, which are "unknown". A GPU that
// fails counts while its name is known, and does not change the labels of others.
//
// gpu.count, mig-<profile>.count and memory describe the hardware: all GPUs of the
// product, or with the strategy single all devices of the class. Product, replicas
// and sharing-strategy describe how it is advertised, which resource.Derive decides.
// The rules are at subject and advertised.share.
func Derive(f Facts) map[string]string {
	l := labels{}
	if len(f.Node.GPUs) == 0 {
		l.vgpu(f.PCI)
		return l
	}
	l.bus(f)
	l.driver(f.Node.Driver)
	l.clique(f.Node.GPUs)
	l.hardware(newHardware(f.Node), f.Config, newAdvertised(f.Node, f.Config))
	return l
}

// hardware sets the labels of the GPUs and MIG devices.
func (l labels) hardware(h hardware, c config.Config, a advertised) {
	l.put("mps.capable", strconv.FormatBool(a.mps()))
	if c.MIGStrategy == config.MIGStrategySingle || c.MIGStrategy == config.MIGStrategyMixed {
		l.put("mig.strategy", string(c.MIGStrategy))
	}
	if len(h.products) == 0 {
		// Nothing is known of the GPUs except that they exist.
		return
	}
	if capable, known := h.migCapable(); known {
		l.put("mig.capable", strconv.FormatBool(capable))
	}
	l.subject(newSubject(h, c, a), a)
	if len(h.products) > 1 {
		for _, p := range h.products {
			l.product(p, a)
		}
	}
	if c.MIGStrategy == config.MIGStrategyMixed {
		for _, class := range profiles(h.devices) {
			l.profile(class, a)
		}
	}
}

// labels are keys and values.
type labels map[string]string

// put sets a label of NVIDIA's domain. The value has to be valid.
func (l labels) put(name, value string) { l[config.Domain+name] = value }

// text sets a label to the part of value that a label can contain. It sets no label
// if that is empty.
func (l labels) text(name, value string) {
	if v := fit(clean(value), "", maxText); v != "" {
		l.put(name, v)
	}
}

// number sets a label to a number. A negative number is not known and sets no label.
func (l labels) number(name string, n int) {
	if n >= 0 {
		l.put(name, strconv.Itoa(n))
	}
}

// version sets one label for each of a version's major and minor number, because
// Kubernetes' affinities compare numbers, not versions.
func (l labels) version(major, minor string, v gpu.Version) {
	if v.Major > 0 {
		l.number(major, v.Major)
		l.number(minor, v.Minor)
	}
}

// memory sets a label to bytes in MiB. It sets no label for 0, because GPUs that
// share the memory of the node do not report a size.
func (l labels) memory(name string, bytes uint64) {
	if bytes > 0 {
		l.put(name, strconv.FormatUint(bytes>>20, 10))
	}
}
