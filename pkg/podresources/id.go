package podresources

import (
	"strconv"
	"strings"

	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/resource"
)

// name holds the parts of a device ID.
type name struct {
	// uuid is the UUID of a GPU or MIG device. It is empty if the ID has a minor instead.
	uuid gpu.UUID
	// minor is the number of the device node /dev/nvidia<minor>.
	minor int
	// gi and ci are the instances of the device on the GPU with this UUID or minor. They are
	// gpu.NoInstance if the ID does not have them.
	gi, ci uint32
	// replica is the Replica of the User.
	replica string
}

// The prefixes of UUIDs. Drivers before R470 name MIG devices MIG-<UUID of the GPU>/<GPU
// instance>/<compute instance>.
const (
	ofGPU = "GPU-"
	ofMIG = "MIG-"
	old   = ofMIG + ofGPU
)

// parse reads the id that a device plugin gives a device:
//
//	GPU-<uuid>, MIG-<uuid>, MIG-GPU-<uuid>/<gi>/<ci>   NVIDIA, Outrigger; each also with ::<replica>
//	nvidia<minor>[/gi<gi>][/vgpu<replica>]             GKE
func parse(id string) (name, bool) {
	if rest, ok := strings.CutPrefix(id, "nvidia"); ok {
		return parseMinor(rest)
	}
	n := name{gi: gpu.NoInstance, ci: gpu.NoInstance}
	uuid, replica, ok := resource.SplitID(id)
	if ok {
		n.replica = strconv.Itoa(replica)
	}
	text := string(uuid)
	if rest, ok := strings.CutPrefix(text, ofMIG); ok && strings.HasPrefix(text, old) {
		parent, instances, _ := strings.Cut(rest, "/")
		gi, ci, _ := strings.Cut(instances, "/")
		n.gi, ok = parseNumber(gi)
		if !ok {
			return name{}, false
		}
		if n.ci, ok = parseNumber(ci); !ok {
			return name{}, false
		}
		text = parent
	}
	n.uuid = gpu.UUID(text)
	return n, isUUID(text)
}

// parseMinor parses the part after "nvidia" in an ID.
func parseMinor(rest string) (name, bool) {
	minor, rest, more := strings.Cut(rest, "/")
	m, ok := parseNumber(minor)
	n := name{minor: int(m), gi: gpu.NoInstance, ci: gpu.NoInstance}
	if part, is := strings.CutPrefix(rest, "gi"); ok && more && is {
		var gi string
		gi, rest, more = strings.Cut(part, "/")
		n.gi, ok = parseNumber(gi)
	}
	if ok && more {
		part, is := strings.CutPrefix(rest, "vgpu")
		_, digits := parseNumber(part)
		n.replica, ok = part, is && digits
	}
	if !ok {
		return name{}, false
	}
	return n, true
}

// parseNumber parses a number in the form of device plugins: at most nine digits, without leading
// zeros.
func parseNumber(s string) (uint32, bool) {
	v, err := strconv.ParseUint(s, 10, 32)
	return uint32(v), err == nil && len(s) <= 9 && strconv.FormatUint(v, 10) == s
}

func isUUID(id string) bool {
	rest, ok := strings.CutPrefix(id, ofGPU)
	if !ok {
		rest, ok = strings.CutPrefix(id, ofMIG)
	}
	return ok && gpu.UUID(rest).Valid()
}

// uuidText returns the UUID of the device. For a MIG device of a driver before R470, it has the
// form of these drivers.
func (n name) uuidText() gpu.UUID {
	if n.gi == gpu.NoInstance {
		return n.uuid
	}
	return gpu.UUID(ofMIG + string(n.uuid) + "/" + strconv.FormatUint(uint64(n.gi), 10) + "/" + strconv.FormatUint(uint64(n.ci), 10))
}
