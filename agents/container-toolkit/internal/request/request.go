// Package request derives what a container asks for from its variables, mounts and
// annotations. The names and the rules are those of NVIDIA's container toolkit. It does no
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

// Container is what a request is derived from.
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

// Environment returns the variables in a list of "name=value". Of several with the same
// name the last one counts.
func Environment(env []string) map[string]string {
	out := make(map[string]string, len(env))
	for _, variable := range env {
		if name, value, ok := strings.Cut(variable, "="); ok {
			out[name] = value
		}
	}
	return out
}

// Request is what a container asks for. Without Devices, and unless None is set, it is no
// GPU container, and everything else is empty.
type Request struct {
	Devices []Device
	// None is set for a container that gets the driver's files, but no GPU.
	None bool
	// Capabilities of the driver, in alphabetical order.
	Capabilities []string
	// CapabilitiesSet tells whether the container names them.
	CapabilitiesSet bool
	// Requirements on the driver and the GPUs, all of which must hold.
	Requirements []Requirement
	// MIGConfig and MIGMonitor ask for the right to change and to monitor all MIG
	// devices.
	MIGConfig, MIGMonitor bool
	// IMEX are numbers of IMEX channels.
	IMEX []string
	// Gates are optional kinds of devices: "gds", "gdrcopy", "mofed", "nvswitch".
	Gates []string
	// Decisions say why the request is as it is, in the order in which they were made.
	Decisions []Decision
}

// Requirement is a condition with the variable that has it.
type Requirement struct{ Variable, Condition string }

// Decision is a part of a request, and why it is so.
type Decision struct{ About, Result, Reason string }

// GPU reports whether the container asks for the driver.
func (r *Request) GPU() bool { return len(r.Devices) > 0 || r.None }

// Derive returns the request of a container. An error names what is wrong, and the fix; the
// request then has the decisions that were made before.
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

// maxValue is far more than a variable has that asks for GPUs: the UUIDs of 112 MIG devices
// have 5 KiB. Its value is an image's, and what is done with it costs the host's time.
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

// legacyImage reports whether the image is one of before the variables NVIDIA_*.
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

// sorted returns the keys of a map with a prefix, in order.
func sorted(m map[string]string, prefix string) []string {
	all := slices.Sorted(maps.Keys(m))
	return slices.DeleteFunc(all, func(key string) bool { return !strings.HasPrefix(key, prefix) })
}
