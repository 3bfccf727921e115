// Package request derives the GPU request of a container from its variables, mounts and
// annotations. NVIDIA's container toolkit defines the names and the rules. The package does no
// I/O.
package request

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"outrigger.dev/agents/container-toolkit/internal/oci"
	"outrigger.dev/agents/container-toolkit/internal/toolconfig"
)

// Container has the parts of a container that define its request.
type Container struct {
	Env         map[string]string
	Mounts      []Mount
	Annotations map[string]string
	// Privileged containers have CAP_SYS_ADMIN.
	Privileged bool
}

// Mount is a mount of a container.
type Mount struct{ Source, Destination string }

// FromSpec returns the container that a spec describes. Clear its Annotations for the mode
// legacy, which ignores them.
func FromSpec(s *oci.Spec) Container {
	c := Container{Env: Environment(s.Env()), Annotations: s.Annotations(), Privileged: s.Privileged()}
	for _, m := range s.Mounts() {
		c.Mounts = append(c.Mounts, Mount{m.Source, m.Destination})
	}
	return c
}

// Environment returns the variables in a list of "name=value". If a name is repeated, the last
// value counts.
func Environment(env []string) map[string]string {
	out := make(map[string]string, len(env))
	for _, variable := range env {
		if name, value, ok := strings.Cut(variable, "="); ok {
			out[name] = value
		}
	}
	return out
}

// Request is the request of a container. If Devices is empty and None is false, the container is
// not a GPU container, and all other fields except Decisions are empty.
type Request struct {
	Devices []Device
	// None is true for a container that gets the driver's files, but no GPU.
	None bool
	// Capabilities of the driver, in alphabetical order.
	Capabilities []string
	// CapabilitiesSet is true if the container names capabilities.
	CapabilitiesSet bool
	// Requirements are conditions for the driver and the GPUs. All of them must hold.
	Requirements []Requirement
	// MIGConfig and MIGMonitor request the right to change and to monitor all MIG
	// devices.
	MIGConfig, MIGMonitor bool
	// IMEX are numbers of IMEX channels.
	IMEX []string
	// Gates are optional kinds of devices: "gds", "gdrcopy", "mofed", "nvswitch".
	Gates []string
	// Decisions explain the request, in the order of the decisions.
	Decisions []Decision
}

// Requirement is a condition, and the variable that contains it.
type Requirement struct{ Variable, Condition string }

// Decision is a part of a request, and the reason for it.
type Decision struct{ About, Result, Reason string }

// GPU reports whether the container requests the driver.
func (r *Request) GPU() bool { return len(r.Devices) > 0 || r.None }

// Derive returns the request of a container. An error names the cause and the fix. With an
// error, the request has the decisions that were made before.
func Derive(c Container, cfg *toolconfig.Config) (*Request, error) {
	d := deriver{Container: c, cfg: cfg, r: &Request{}}
	if err := d.devices(); err != nil || !d.r.GPU() {
		return d.r, err
	}
	for _, step := range []func() error{d.lengths, d.capabilities, d.requirements, d.migRights, d.channels} {
		if err := step(); err != nil {
			return d.r, err
		}
	}
	d.gates()
	return d.r, nil
}

// maxValue limits the size of a variable, in bytes, because the image sets the value and the host
// spends time on it. The UUIDs of 112 MIG devices have 5 KiB.
const maxValue = 64 << 10

func acceptLength(variable, value string) error {
	if len(value) <= maxValue {
		return nil
	}
	return fmt.Errorf("inject GPUs: %s has %d bytes: at most %d are accepted", variable, len(value), maxValue)
}

// lengths rejects variables that are too long.
func (d *deriver) lengths() error {
	for _, name := range sorted(d.Env, "NVIDIA_") {
		if err := acceptLength(name, d.Env[name]); err != nil {
			return err
		}
	}
	return nil
}

// deriver derives one Request.
type deriver struct {
	Container
	cfg *toolconfig.Config
	r   *Request
}

// decide records a decision.
func (d *deriver) decide(about, result, reason string) {
	d.r.Decisions = append(d.r.Decisions, Decision{about, result, reason})
}

// legacyImage reports whether the image was made before the variables NVIDIA_* existed.
func (d *deriver) legacyImage() bool {
	return d.Env["CUDA_VERSION"] != "" && d.Env["NVIDIA_REQUIRE_CUDA"] == ""
}

// gates adds optional kinds of devices.
func (d *deriver) gates() {
	for _, gate := range []string{"gdrcopy", "gds", "mofed", "nvswitch"} {
		name := "NVIDIA_" + strings.ToUpper(gate)
		if d.Env[name] == "enabled" {
			d.r.Gates = append(d.r.Gates, gate)
			d.decide(gate, "all devices", name+"=enabled")
		}
	}
}

// sorted returns the keys of a map that begin with a prefix, in alphabetical order.
func sorted(m map[string]string, prefix string) []string {
	all := slices.Sorted(maps.Keys(m))
	return slices.DeleteFunc(all, func(key string) bool { return !strings.HasPrefix(key, prefix) })
}
