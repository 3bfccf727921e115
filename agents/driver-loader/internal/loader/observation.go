// Package loader brings the driver of a node to the desired state, step by step. It observes the node,
// derives the next step (Next, which is pure), performs it, and observes again. Its only state is the
// journal on the disk. Package contract explains facts, and the lease on NVML and its claim.
package loader

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"

	"outrigger.dev/agents/driver-loader/internal/cache"
	"outrigger.dev/agents/driver-loader/internal/kernel"
	"outrigger.dev/agents/driver-loader/internal/optional"
	"outrigger.dev/agents/driver-loader/internal/payload"
	"outrigger.dev/agents/driver-loader/internal/stack"
	"outrigger.dev/pkg/cause"
	"outrigger.dev/pkg/holders"
	"outrigger.dev/pkg/pci"
)

// Desired is the desired state of a node.
type Desired struct {
	// Version is the version of the driver in the store. If it is empty, the driver with the digest Payload is
	// desired, which this process has imported, or without a digest, the driver that was imported last.
	Version, Payload string
	Flavour          payload.Flavour
	Options          stack.Options
	Params           stack.Params
	// Keep is set if a loaded driver stays, whatever its version, until an upgrade or a user
	// replaces it.
	Keep bool
	// ReplaceForeign is set if a loaded driver is replaced even if this agent has neither built nor loaded it.
	ReplaceForeign bool
	// Upgrading describes the upgrade that changes the driver now, so that the loader does not. It
	// is empty without such an upgrade.
	Upgrading string
	// Instead returns the ID of the driver to load on a node without a driver, for the ID of the
	// desired one. After a failed upgrade, this is the previous driver. It may be nil.
	Instead func(id string) string

	// driver is the desired driver. If set, it overrides the fields above.
	driver *Driver
	// hold keeps a change in the journal when the new driver works, so that it can be rolled back.
	hold bool
}

// Driver identifies the modules to load, and their parameters.
type Driver struct {
	Version string          `json:"version"`
	Flavour payload.Flavour `json:"flavour"`
	// Digest is the digest of the payload, "" for a driver that is not in the store.
	Digest string `json:"digest,omitempty"`
	// Params are the parameters of the driver's modules.
	Params stack.Params `json:"params,omitempty"`
}

// ModuleVersion returns the version that the driver's kernel modules state.
func (a Driver) ModuleVersion() string { return payload.ModuleVersion(a.Version) }

// ID identifies a driver, for people and programs: by its version, the type of its modules, and a
// digest of its payload and parameters. Without a driver, it is empty.
func (a Driver) ID() string {
	if a.Version == "" {
		return ""
	}
	h := sha256.New()
	fmt.Fprintf(h, "%q", a.Digest)
	for _, module := range slices.Sorted(maps.Keys(a.Params)) {
		if params := slices.Sorted(slices.Values(a.Params[module])); len(params) > 0 {
			fmt.Fprintf(h, "%q%q", module, params)
		}
	}
	return fmt.Sprintf("%s-%s-%x", a.Version, a.Flavour, h.Sum(nil)[:4])
}

// Change is a change of the loaded driver that is not finished or has failed. The journal records it.
type Change struct {
	From Driver `json:"from"`
	To   Driver `json:"to"`
	// Failed is the reason why To does not work. The loader then loads From again, and keeps it
	// until another driver is desired or a user asks to try again.
	Failed *cause.Cause `json:"failed,omitempty"`
	// Displaced has the modules of the kernel's own driver that were unloaded for To, in this order. If To
	// fails and there is no From, they are loaded again: Restored has the modules then.
	Displaced []string `json:"displaced,omitempty"`
	Restored  []string `json:"restored,omitempty"`
}

// Observation is the observed state of a node. Next derives the next step from it.
type Observation struct {
	Devices []pci.Device
	Kernel  kernel.Kernel
	// Modules are the loaded modules.
	Modules map[string]kernel.Loaded
	// Running is the loaded driver. Without one, its version is "". Noted is set if this program
	// loaded it, so that the journal has its parameters.
	Running Driver
	Noted   bool
	// Host is the version of the driver that is installed on the host itself, or "".
	Host string
	// Payloads are the drivers in the store, the last imported first.
	Payloads []payload.Payload
	// Sets are the built modules for this kernel and compiler.
	Sets []cache.Set
	// Change is the change in the journal, or nil. Before is the driver that worked last.
	Change *Change
	Before Driver
	// Failure is the last step that failed, or nil after a success.
	Failure *Failure
	// Adapter is set if the node has a network adapter that can access the memory of GPUs. Network then
	// identifies the headers of its driver, "" without headers.
	Adapter bool
	Network string
	// Sources has the sources of optional modules in the store, by module.
	Sources map[string]optional.Source
	// Tried has the failed attempts to load optional modules, by Driver.Attempt.
	Tried map[string]Attempt
	// Stranger is set if this agent has neither built nor loaded the loaded driver.
	Stranger bool
	// Container is set while NVIDIA's driver container runs. ContainerEnded is set if it has ended and has not unloaded
	// its driver.
	Container, ContainerEnded bool
	// Shown is the digest of the payload whose root is mounted at the driver's place, or "".
	Shown string
	// Claimed is set while this process has claimed NVML.
	Claimed bool
	// Holders are the processes that use the driver. They are observed only while NVML is claimed.
	Holders []holders.Holder
	// Users are the processes that would keep the driver open after a claim of NVML. They are
	// observed only before the claim, if the journal has a change.
	Users []holders.Holder
	// Displays describes the users of GPUs that are bound to another driver.
	Displays []string
	// MissingNodes is the number of missing device nodes and links.
	MissingNodes int
	// Daemons are the daemons of the driver that should run and do not run.
	Daemons []string
	// Validated is the driver that worked when this process checked it last. Rehearsed is the driver
	// whose modules passed the checks before a load.
	Validated, Rehearsed Driver
	// Published is the version in the fact driver-ready, or "" if the fact has to be written.
	Published string
}

// GPUs returns the GPUs on the PCI bus.
func (o Observation) GPUs() []pci.Device {
	return slices.DeleteFunc(slices.Clone(o.Devices), func(d pci.Device) bool { return !d.GPU() })
}

// choose returns the payload of the desired driver. If payloads have the desired version, it prefers the payload that
// this process has imported.
func (o Observation) choose(d Desired) (payload.Payload, bool) {
	p, own := o.payload(d.Payload)
	if own && (d.Version == "" || d.Version == p.Version) {
		return p, true
	}
	i := slices.IndexFunc(o.Payloads, func(p payload.Payload) bool { return p.Version == d.Version || d.Version == "" && d.Payload == "" })
	if i < 0 {
		return payload.Payload{}, false
	}
	return o.Payloads[i], true
}

// Desired returns the desired driver. If the store does not have it, the result is zero.
func (o Observation) Desired(d Desired) Driver {
	driver, _ := o.desired(d)
	return driver
}

// Built reports whether the store has the modules of a driver.
func (o Observation) Built(d Driver) bool {
	_, built := o.set(d)
	return built
}

// Precompiled reports whether a driver has modules for the running kernel, which need neither headers nor a compiler.
func (o Observation) Precompiled(d Driver) bool {
	p, _ := o.payload(d.Digest)
	return p.Precompiled[o.Kernel.Release][d.Flavour] != ""
}

// shown reports whether the root of a driver is mounted at its place. A driver without a root needs
// no mount.
func (o Observation) shown(d Driver) bool {
	p, _ := o.payload(d.Digest)
	return p.Root == "" || o.Shown == d.Digest
}

// payload returns the payload with a digest.
func (o Observation) payload(digest string) (payload.Payload, bool) {
	i := slices.IndexFunc(o.Payloads, func(p payload.Payload) bool { return p.Digest == digest })
	if i < 0 {
		return payload.Payload{}, false
	}
	return o.Payloads[i], true
}

// set returns the built modules of a driver.
func (o Observation) set(d Driver) (cache.Set, bool) {
	i := slices.IndexFunc(o.Sets, func(s cache.Set) bool {
		return s.Key.Sources == d.Digest && s.Key.Flavour == string(d.Flavour)
	})
	if i < 0 {
		return cache.Set{}, false
	}
	return o.Sets[i], true
}
