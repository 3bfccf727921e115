// Package label derives the labels of a node, with a pure function of the node's GPUs, the
// config, the machine and the PCI bus.
//
// It derives the same labels as NVIDIA's GPU feature discovery, with the same values for every
// config that NVIDIA's supports. The files are:
//
//   - hardware.go: how GPUs and MIG devices are grouped
//   - advertised.go: how they are advertised
//   - subject.go: which of them the labels nvidia.com/gpu.* describe
//   - gpu.go, mig.go: the labels of GPUs and MIG devices
//   - driver.go, bus.go: the labels of the driver and of the PCI bus
//   - presence.go: the labels of a node before it has a driver
//   - text.go: the characters and the length of a label
//   - labels.tsv: all labels, for the admission policy and the documentation
package label

//go:generate go test -run TestGenerated -update .

import (
	"strconv"

	"outrigger.dev/pkg/config"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/pci"
)

// Facts is the input of Derive.
type Facts struct {
	// Node is the node of the last successful refresh.
	Node   *gpu.Node
	Config config.Config
	// Machine is the product name in the DMI tables, "" if they have none.
	Machine string
	// PCI lists NVIDIA's devices, ordered by bus id.
	PCI []pci.Device
}

// Derive returns the labels of a node, except the labels of Presence and the timestamp, which
// the publisher sets. The labels are valid in Kubernetes for any names of the hardware, and do
// not depend on the order of the GPUs.
//
// If the driver lists no GPU, Derive returns only the labels of virtual GPUs. An unknown property
// has no label, except gpu.machine and gpu.mode, which are then "unknown". A GPU that fails counts
// while its name is known, and does not change the labels of other GPUs.
//
// gpu.count, mig-<profile>.count and memory describe the hardware: all GPUs of the product, or
// all devices of the class with the strategy single. product, replicas and sharing-strategy
// describe its advertisement, as derived by resource.Derive. The rules are in the comments on
// subject and advertised.share.
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
		// The driver lists the GPUs, but did not report their names.
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

// text sets a label to a text, without the characters that a label cannot contain. It sets no
// label if no character remains.
func (l labels) text(name, value string) {
	if v := fit(clean(value), "", maxText); v != "" {
		l.put(name, v)
	}
}

// number sets a label to a number. A negative number means unknown, and sets no label.
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

// memory sets a label to a size in MiB. It sets no label for 0, because GPUs that
// share the memory of the node do not report a size.
func (l labels) memory(name string, bytes uint64) {
	if bytes > 0 {
		l.put(name, strconv.FormatUint(bytes>>20, 10))
	}
}
