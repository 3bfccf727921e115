package request

import (
	"fmt"
	"strconv"
	"strings"

	"tags.cncf.io/container-device-interface/pkg/parser"

	"outrigger.dev/pkg/text"
)

// Device is a device that a container asks for.
type Device struct {
	// Asked is the device as the container names it.
	Asked string
	// Kind is the CDI kind: "nvidia.com/gpu".
	Kind string
	// Names of the device in CDI specs of the kind: the first that exists counts.
	Names []string
	// Qualified is set if the container named the kind as well.
	Qualified bool
}

// legacyKind is the kind under which NVIDIA's runtime makes specs while a container starts.
const legacyKind = "runtime.nvidia.com/gpu"

// parseDevice returns the device that a container names: by index, by two indices for a
// MIG device, by UUID, by PCI bus ID, or by a CDI name with or without the kind.
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
	if strings.HasPrefix(name, "MIG-GPU-") {
		return d, fmt.Errorf("inject GPUs: device %q is named as by drivers before 470: use the UUID that nvidia-smi -L prints", text.Printable(name))
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

// PCINames returns the forms in which a spec may name the GPU with a PCI bus ID, or nil if
// name is none: with the domain in eight digits, as NVML writes it, and in four, as sysfs
// does.
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

// ParseChannel returns the number of an IMEX channel that is written as a number, or as
// "channel" and a number.
func ParseChannel(name string) (int, error) {
	n, err := strconv.ParseUint(strings.TrimPrefix(name, "channel"), 10, 32)
	if err != nil || n > maxChannel {
		return 0, fmt.Errorf("%q is no IMEX channel: use a number from 0 to %d", text.Cut(text.Printable(name), 40), maxChannel)
	}
	return int(n), nil
}
