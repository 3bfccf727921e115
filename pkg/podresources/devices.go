package podresources

import (
	"strings"

	kubelet "k8s.io/kubelet/pkg/apis/podresources/v1"

	"outrigger.dev/pkg/gpu"
)

// devices finds the GPUs of a node by the parts of device IDs: UUIDs of GPUs and MIG devices, and
// minor numbers.
type devices struct {
	uuids  map[gpu.UUID]*gpu.GPU
	minors map[int]*gpu.GPU
}

// index returns the devices of a node, or none if n is nil. It includes GPUs in MIG mode, because
// some device plugins list them.
func index(n *gpu.Node) devices {
	d := devices{uuids: map[gpu.UUID]*gpu.GPU{}, minors: map[int]*gpu.GPU{}}
	if n == nil {
		return d
	}
	for i := range n.GPUs {
		g := &n.GPUs[i]
		if g.UUID == "" {
			continue
		}
		d.uuids[g.UUID], d.minors[g.Minor] = g, g
		for _, m := range migDevices(g) {
			if m.UUID != "" {
				d.uuids[m.UUID] = g
			}
		}
	}
	return d
}

// find returns the UUIDs of the devices that an ID names. There are several if it names a GPU
// instance with several compute instances.
func (d devices) find(n name) []gpu.UUID {
	g := d.uuids[n.uuid]
	if n.uuid == "" {
		g = d.minors[n.minor]
	}
	if g == nil {
		return nil
	}
	if n.gi != gpu.NoInstance {
		return instances(g, func(m gpu.MIGDevice) bool {
			return m.GPUInstance == n.gi && (n.ci == gpu.NoInstance || m.ComputeInstance == n.ci)
		})
	}
	if n.uuid != "" {
		return []gpu.UUID{n.uuid}
	}
	return []gpu.UUID{g.UUID}
}

// instances returns the UUIDs of the matching MIG devices of a GPU.
func instances(g *gpu.GPU, match func(gpu.MIGDevice) bool) []gpu.UUID {
	var out []gpu.UUID
	for _, m := range migDevices(g) {
		if m.UUID != "" && match(m) {
			out = append(out, m.UUID)
		}
	}
	return out
}

func migDevices(g *gpu.GPU) []gpu.MIGDevice {
	if g.MIG == nil {
		return nil
	}
	return g.MIG.Devices
}

// draDriver is the name of NVIDIA's DRA driver for GPUs, and of Outrigger's.
const draDriver = "gpu.nvidia.com"

// claimed records a device of a claim. It searches for the UUID in Options.Claimed, then in the names
// of the CDI devices, which Outrigger's driver names by UUID, and then by the name of the device.
func (d *derivation) claimed(u User, r *kubelet.ClaimResource) {
	found := []gpu.UUID{d.options.Claimed[r.GetDeviceName()]}
	if found[0] == "" {
		found = d.byCDI(r.GetCdiDevices())
	}
	if len(found) == 0 {
		found = d.of.byName(r.GetDeviceName())
	}
	for _, uuid := range found {
		d.users[uuid] = append(d.users[uuid], u)
	}
	if len(found) == 0 {
		d.unknown = append(d.unknown, Unknown{User: u})
	}
}

func (d *derivation) byCDI(devices []*kubelet.CDIDevice) []gpu.UUID {
	var out []gpu.UUID
	for _, c := range devices {
		_, id, _ := strings.Cut(c.GetName(), "=")
		if uuid := gpu.UUID(id); d.of.uuids[uuid] != nil || d.options.Node == nil && isUUID(id) {
			out = append(out, uuid)
		}
	}
	return out
}

// byName returns the UUIDs of the devices that the name in a ResourceSlice stands for:
//
//	gpu-<minor>                                       a GPU
//	gpu-<minor>-mig-<gi>-<ci>                         a MIG device, by Outrigger
//	gpu-<minor>-mig-<profile id>-<start>-<size>       a MIG device, by NVIDIA
//	gpu-<minor>-mig-<profile>-<profile id>-<start>    the same, if the driver makes MIG devices
//
// The placement of the GPU instance begins at start and has this size.
func (d devices) byName(device string) []gpu.UUID {
	parts := strings.Split(device, "-")
	if len(parts) < 2 || parts[0] != "gpu" {
		return nil
	}
	minor, ok := parseNumber(parts[1])
	g := d.minors[int(minor)]
	if !ok || g == nil {
		return nil
	}
	if len(parts) == 2 {
		return []gpu.UUID{g.UUID}
	}
	if parts[2] != "mig" || len(parts) < 5 {
		return nil
	}
	// A profile with an attribute, such as "1g10gb-me", has more parts.
	last, ok := parseNumber(parts[len(parts)-1])
	before, also := parseNumber(parts[len(parts)-2])
	_, numeric := parseNumber(parts[3])
	if !ok || !also {
		return nil
	}
	if len(parts) == 5 {
		return instances(g, func(m gpu.MIGDevice) bool { return m.GPUInstance == before && m.ComputeInstance == last })
	}
	return instances(g, func(m gpu.MIGDevice) bool {
		at := m.Placement
		switch {
		case at.Size == 0: // not known
			return false
		case numeric:
			return at.Start == int(before) && at.Size == int(last)
		}
		return at.Start == int(last)
	})
}
