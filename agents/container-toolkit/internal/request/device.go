package request

import (
	"fmt"
	"strconv"
	"strings"

	"tags.cncf.io/container-device-interface/pkg/parser"

	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/text"
)

// Device is a device that a container requests.
type Device struct {
	// Asked is the name of the device in the request of the container.
	Asked string
	// Kind is the CDI kind: "nvidia.com/gpu".
	Kind string
	// Names are names of the device in CDI specs of the kind. The first existing name counts.
	Names []string
	// Qualified is true if the container named the kind as well.
	Qualified bool
	// ByInstance is true for a name in the form of drivers before 470, see ParseInstance. CDI specs
	// do not have such names.
	ByInstance bool
}

// legacyKind is the kind of the specs that NVIDIA's runtime makes while a container starts.
const legacyKind = "runtime.nvidia.com/gpu"

// parseDevice returns the device for a name. A name is an index, two indices for a MIG device, a
// UUID, a PCI bus ID, or a CDI name with or without the kind.
func parseDevice(name, defaultKind string) (Device, error) {
	d := Device{Asked: name, Kind: defaultKind}
	if strings.Contains(name, "=") {
		vendor, class, id, err := parser.ParseQualifiedName(name)
		if err != nil {
			return d, fmt.Errorf("inject GPUs: %w", err)
		}
		d.Qualified, name = true, id
		if kind := vendor + "/" + class; kind != legacyKind {
			d.Kind = kind
		}
	}
	if _, ok := ParseInstance(name); ok {
		d.ByInstance, name = true, strings.ReplaceAll(name, "/", ":") // CDI names have no slash
	}
	if err := parser.ValidateDeviceName(name); err != nil {
		return d, fmt.Errorf("inject GPUs: device %q: %w", text.Cut(text.Printable(name), 80), errNoDevice)
	}
	d.Names = PCINames(name)
	if d.Names == nil {
		d.Names = []string{name}
	}
	return d, nil
}

// Instance is a MIG device: a compute instance of a GPU instance of a GPU.
type Instance struct {
	GPU                          gpu.UUID
	GPUInstance, ComputeInstance int
}

// ParseInstance returns the MIG device for a name in the form of drivers before 470:
// MIG-<UUID of the GPU>/<GPU instance>/<compute instance>. It accepts upper and lower case.
func ParseInstance(name string) (Instance, bool) {
	const prefix = "MIG-"
	parts := strings.Split(name, "/")
	if len(parts) != 3 || len(parts[0]) < len(prefix) || !strings.EqualFold(parts[0][:len(prefix)], prefix) {
		return Instance{}, false
	}
	id := gpu.UUID(parts[0][len(prefix):])
	gi, errGI := strconv.ParseUint(parts[1], 10, 16)
	ci, errCI := strconv.ParseUint(parts[2], 10, 16)
	ok := id.Valid() && len(id) > 4 && strings.EqualFold(string(id[:4]), "GPU-") && errGI == nil && errCI == nil
	return Instance{GPU: id, GPUInstance: int(gi), ComputeInstance: int(ci)}, ok
}

// PCINames returns the two forms of a PCI bus ID in specs. The domain has eight digits, as in
// NVML, or four digits, as in sysfs. It returns nil if name is not a PCI bus ID.
func PCINames(name string) []string {
	parts := strings.Split(strings.ToLower(name), ":")
	if len(parts) == 2 && strings.Contains(parts[1], ".") {
		parts = append([]string{"0"}, parts...)
	}
	if len(parts) != 3 {
		return nil
	}
	slot, function, ok := strings.Cut(parts[2], ".")
	domain, errDomain := strconv.ParseUint(parts[0], 16, 32)
	bus, errBus := strconv.ParseUint(parts[1], 16, 8)
	device, errDevice := strconv.ParseUint(slot, 16, 5)
	fn, errFn := strconv.ParseUint(function, 8, 3)
	if !ok || errDomain != nil || errBus != nil || errDevice != nil || errFn != nil {
		return nil
	}
	return []string{
		fmt.Sprintf("%08x:%02x:%02x.%d", domain, bus, device, fn),
		fmt.Sprintf("%04x:%02x:%02x.%d", domain, bus, device, fn),
	}
}

// imexDevice returns the device of an IMEX channel.
func imexDevice(asked, number string) Device {
	return Device{Asked: asked, Kind: "nvidia.com/imex-channel", Names: []string{"channel" + number, number}}
}

// maxChannel is the highest number of an IMEX channel.
const maxChannel = 1<<20 - 1

// ParseChannel returns the number of an IMEX channel. name is a number, or "channel" and a
// number.
func ParseChannel(name string) (int, error) {
	n, err := strconv.ParseUint(strings.TrimPrefix(name, "channel"), 10, 32)
	if err != nil || n > maxChannel {
		return 0, fmt.Errorf("%q is not an IMEX channel: use a number from 0 to %d", text.Cut(text.Printable(name), 40), maxChannel)
	}
	return int(n), nil
}
