package podresources

import (
	"strconv"
	"strings"

	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/resource"
)

// name is what the id of a device says.
type name struct {
	// uuid is that of a GPU or MIG device. It is empty if the id has a minor instead.
	uuid gpu.UUID
	// minor is the number of the device node /dev/nvidia<minor>.
	minor int
	// gi and ci are the instances of the device on the GPU with this UUID or minor, gpu.NoInstance
	// if the id does not have them.
	gi, ci uint32
	// replica is that of User.
	replica string
}

// The beginnings of UUIDs, and of the names in which drivers before R470 give MIG devices as
// MIG-<UUID of the GPU>/<GPU instance>/<compute instance>.
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

// parseMinor reads what follows "nvidia" in an id.
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

// parseNumber reads a number as device plugins write it: in at most nine digits, without zeros before
// it.
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

// uuidText returns the UUID of the device. Drivers before R470 have this form of a MIG device as its
// UUID.
func (n name) uuidText() gpu.UUID {
	if n.gi == gpu.NoInstance {
		return n.uuid
	}
	return gpu.UUID(ofMIG + string(n.uuid) + "/" + strconv.FormatUint(uint64(n.gi), 10) + "/" + strconv.FormatUint(uint64(n.ci), 10))
}
