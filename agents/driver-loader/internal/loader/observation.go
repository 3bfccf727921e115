// Package loader brings the driver of a node to its desired state, step by step: it observes
// the node, derives the next step (Next, which is pure), takes it, and observes again. It
// remembers nothing but the journal on the disk.
package loader

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"

	"outrigger.dev/agents/driver-loader/internal/cache"
	"outrigger.dev/agents/driver-loader/internal/kernel"
	"outrigger.dev/agents/driver-loader/internal/payload"
	"outrigger.dev/agents/driver-loader/internal/stack"
	"outrigger.dev/pkg/cause"
	"outrigger.dev/pkg/holders"
	"outrigger.dev/pkg/pci"
)

// Desired is what a node should run.
type Desired struct {
	// Version is that of the driver in the store; "" means the newest one.
	Version string
	Flavour payload.Flavour
	Options stack.Options
	Params  stack.Params
	// Keep is set if a driver that is loaded stays, whatever its version: somebody else
	// decides when it is replaced.
	Keep bool
	// Upgrading says where the upgrade is that changes the driver now: nobody else does. It is
	// empty for none.
	Upgrading string
	// Instead returns which driver a node without one loads, if not the one with this ID: the
	// previous one after an upgrade that has failed. It may be nil.
	Instead func(id string) string

	// to is the driver itself, instead of the one that the fields above describe.
	driver *Driver
	// hold is set if a change stays in the journal when its driver works, so that there is a way
	// back.
	hold bool
}

// Driver is a driver as far as it decides which modules are loaded.
type Driver struct {
	Version string          `json:"version"`
	Flavour payload.Flavour `json:"flavour"`
	// Digest is that of the payload, "" for a driver that is not in the store.
	Digest string `json:"digest,omitempty"`
	// Params are the parameters of its modules.
	Params stack.Params `json:"params,omitempty"`
}

// ID identifies a driver, for people and programs: its version, the type of its modules, and
// a digest of its payload and parameters. It is empty for no driver.
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

// Change is a change of the loaded driver that is not finished, or has failed. It is the
// content of the journal.
type Change struct {
	From Driver `json:"from"`
	To   Driver `json:"to"`
	// Failed is why To does not work. Then From is loaded again, and stays until another
	// driver is desired or somebody asks to try again.
	Failed *cause.Cause `json:"failed,omitempty"`
}

// Observation is all that the next step depends on.
type Observation struct {
	Devices []pci.Device
	Kernel  kernel.Kernel
	// Modules are those that the kernel has.
	Modules map[string]kernel.Loaded
	// Running is the driver that is loaded. Its version is "" if none is. Noted is set if the
	// journal knows its parameters: this program has loaded it.
	Running Driver
	Noted   bool
	// Host is the version of a driver that is installed on the host itself, "" for none.
	Host string
	// Payloads are the drivers in the store, the newest first.
	Payloads []payload.Payload
	// Sets are the built modules for this kernel and compiler.
	Sets []cache.Set
	// Change is the change in the journal, nil for none. Before is the driver that worked last.
	Change *Change
	Before Driver
	// Container is set if NVIDIA's driver container has loaded the driver, and shows its root.
	Container bool
	// Shown is the digest of the payload whose root is at the driver's place, "" for another
	// folder.
	Shown string
	// Claimed is set while this process has NVML for itself.
	Claimed bool
	// Holders are the processes that use the driver. They are only observed if it is to be
	// unloaded.
	Holders []holders.Holder
	// Users are those that stay when NVML is claimed. They are only observed before that, while a
	// change is noted.
	Users []holders.Holder
	// Displays are, for people, what uses the GPUs of another driver that is in the way.
	Displays []string
	// MissingNodes is how many device nodes and links are to be made.
	MissingNodes int
	// Daemons are those of the driver that should run and do not.
	Daemons []string
	// Validated is the driver that this process has seen working, and Rehearsed the one whose
	// modules it has checked as before a load.
	Validated, Rehearsed Driver
	// Published is the version in the fact driver-ready, if it is as it should be.
	Published string
}

// GPUs returns the GPUs on the PCI bus.
func (o Observation) GPUs() []pci.Device {
	return slices.DeleteFunc(slices.Clone(o.Devices), func(d pci.Device) bool { return !d.GPU() })
}

// Desired returns the driver that a node should run, zero if the store does not have it.
func (o Observation) Desired(d Desired) Driver {
	driver, _ := o.desired(d)
	return driver
}

// Built reports whether the modules of a driver are in the store.
func (o Observation) Built(d Driver) bool {
	_, built := o.set(d)
	return built
}

// shown reports whether the root of a driver is at its place. One without a root needs none.
func (o Observation) shown(d Driver) bool {
	p, _ := o.payload(d.Digest)
	return p.Root == "" || o.Shown == d.Digest
}

// payload returns the driver with a digest.
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
