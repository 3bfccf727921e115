// Package dra advertises the node's GPUs through Dynamic Resource Allocation: it
// publishes the inventory of the device plugin as ResourceSlices, and prepares claims
// through CDI.
//
// Inventory and Checkpoint do no I/O. Driver communicates with the kubelet and the API
// server.
package dra

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/health"
	advertised "outrigger.dev/pkg/resource"
)

// DriverName is the name of NVIDIA's DRA driver for GPUs. DeviceClasses and the
// expressions of users' claims contain it.
const DriverName = "gpu.nvidia.com"

// CDIVendor and CDIClass form the kind of the CDI devices that claims get.
const (
	CDIVendor = "k8s." + DriverName
	CDIClass  = "gpu"
)

// The values of the attribute "type".
const (
	typeGPU = "gpu"
	typeMIG = "mig"
)

// Device is one GPU or MIG device that the driver publishes.
type Device struct {
	// Name is its name in the ResourceSlice: "gpu-0" for the GPU with minor 0, and
	// "gpu-0-mig-7-0" for compute instance 0 of GPU instance 7 of that GPU. If an earlier device
	// had this name, the device has another name (gpu.GPU.Alias).
	Name string
	UUID gpu.UUID
	// Spec is the device's entry in a ResourceSlice.
	Spec   resourceapi.Device
	Health health.Status
}

// CDI returns the qualified name of the CDI device.
func (d Device) CDI() string { return CDIVendor + "/" + CDIClass + "=" + string(d.UUID) }

// Inventory returns the devices of a set, ordered by name. The set must be derived from n.
// For a GPU in MIG mode, it returns only the MIG devices.
func Inventory(n *gpu.Node, set advertised.Set) []Device {
	out := []Device{}
	for _, r := range set.Resources {
		for _, d := range r.Devices {
			if dev, ok := find(n, d); ok {
				out = append(out, dev)
			}
		}
	}
	slices.SortFunc(out, func(a, b Device) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// find returns the GPU or MIG device of n for the advertised device d.
func find(n *gpu.Node, d advertised.Device) (Device, bool) {
	g := n.GPU(d.GPU)
	if g == nil {
		return Device{}, false
	}
	if g.UUID == d.UUID {
		return wholeGPU(n, g, d.Health), g.MIG == nil || !g.MIG.Enabled
	}
	for _, m := range migDevices(g) {
		if m.UUID == d.UUID {
			return migDevice(n, g, m, d.Health), true
		}
	}
	return Device{}, false
}

func migDevices(g *gpu.GPU) []gpu.MIGDevice {
	if g.MIG == nil {
		return nil
	}
	return g.MIG.Devices
}

func wholeGPU(n *gpu.Node, g *gpu.GPU, status health.Status) Device {
	name := gpuName(g)
	attributes := commonAttributes(n, g)
	attributes["type"] = text(typeGPU)
	attributes["uuid"] = text(string(g.UUID))
	return Device{
		Name: name, UUID: g.UUID, Health: status,
		Spec: resourceapi.Device{Name: name, Attributes: attributes, Capacity: memory(g.MemoryBytes)},
	}
}

func gpuName(g *gpu.GPU) string {
	if g.Alias != nil {
		return fmt.Sprintf("gpu-%d", *g.Alias)
	}
	return fmt.Sprintf("gpu-%d", g.Minor)
}

func migDevice(n *gpu.Node, g *gpu.GPU, m gpu.MIGDevice, status health.Status) Device {
	name := fmt.Sprintf("%s-mig-%d-%d", gpuName(g), m.GPUInstance, m.ComputeInstance)
	if m.Alias != nil {
		name = fmt.Sprintf("%s-%d", name, *m.Alias)
	}
	attributes := commonAttributes(n, g)
	attributes["type"] = text(typeMIG)
	attributes["uuid"] = text(string(m.UUID))
	attributes["parentUUID"] = text(string(g.UUID))
	attributes["profile"] = text(m.Profile.String())
	capacity := memory(m.MemoryBytes)
	for field, count := range map[resourceapi.QualifiedName]int{
		"multiprocessors": m.Engines.Multiprocessors,
		"copyEngines":     m.Engines.Copy,
		"decoders":        m.Engines.Decoder,
		"encoders":        m.Engines.Encoder,
		"jpegEngines":     m.Engines.JPEG,
		"ofaEngines":      m.Engines.OFA,
	} {
		capacity[field] = resourceapi.DeviceCapacity{Value: *resource.NewQuantity(int64(count), resource.DecimalSI)}
	}
	return Device{
		Name: name, UUID: m.UUID, Health: status,
		Spec: resourceapi.Device{Name: name, Attributes: attributes, Capacity: capacity},
	}
}

// commonAttributes returns the attributes that a GPU and its MIG devices share. It omits
// unknown attributes, so that expressions that use them do not match.
func commonAttributes(n *gpu.Node, g *gpu.GPU) map[resourceapi.QualifiedName]resourceapi.DeviceAttribute {
	out := map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{}
	add := func(name resourceapi.QualifiedName, value string) {
		if value != "" && len(value) <= resourceapi.DeviceAttributeMaxValueLength {
			out[name] = text(value)
		}
	}
	add("productName", g.Name)
	add("brand", g.Brand)
	add("architecture", g.Architecture)
	add("pciBusID", g.PCI.BusID)
	index := int64(g.Index)
	out["index"] = resourceapi.DeviceAttribute{IntValue: &index}
	if g.NUMANode >= 0 {
		node := int64(g.NUMANode)
		out["numaNode"] = resourceapi.DeviceAttribute{IntValue: &node}
	}
	if v := g.ComputeCapability; v.Major > 0 {
		out["cudaComputeCapability"] = version(fmt.Sprintf("%d.%d.0", v.Major, v.Minor))
	}
	if v, ok := semantic(n.Driver.Version); ok {
		out["driverVersion"] = version(v)
	}
	if v := n.Driver.CUDA; v.Major > 0 {
		out["cudaDriverVersion"] = version(fmt.Sprintf("%d.%d.0", v.Major, v.Minor))
	}
	return out
}

// semantic converts a driver version to a semantic version (semver 2.0.0), which the API
// requires: three numbers without leading zeros. "580.95.05" becomes 580.95.5.
func semantic(v string) (string, bool) {
	fields := strings.Split(v, ".")
	if v == "" || len(fields) > 3 {
		return "", false
	}
	for i, f := range fields {
		if f == "" || strings.Trim(f, "0123456789") != "" {
			return "", false
		}
		if fields[i] = strings.TrimLeft(f, "0"); fields[i] == "" {
			fields[i] = "0"
		}
	}
	for len(fields) < 3 {
		fields = append(fields, "0")
	}
	return strings.Join(fields, "."), true
}

func text(v string) resourceapi.DeviceAttribute { return resourceapi.DeviceAttribute{StringValue: &v} }

func version(v string) resourceapi.DeviceAttribute {
	return resourceapi.DeviceAttribute{VersionValue: &v}
}

func memory(bytes uint64) map[resourceapi.QualifiedName]resourceapi.DeviceCapacity {
	out := map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{}
	if bytes > 0 {
		out["memory"] = resourceapi.DeviceCapacity{Value: *resource.NewQuantity(int64(bytes), resource.BinarySI)} //nolint:gosec // no board has 8 EiB
	}
	return out
}
