package preflight

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"outrigger.dev/agents/driver-loader/internal/check"
	"outrigger.dev/agents/driver-loader/internal/loader"
	"outrigger.dev/agents/driver-loader/internal/stack"
	"outrigger.dev/pkg/cause"
	"outrigger.dev/pkg/text"
)

// needed is the largest space that a driver, its sources and its build need, in bytes.
const needed = 4 << 30

// Derive returns the verdict for a node.
func Derive(o loader.Observation, d loader.Desired, f Facts) Verdict {
	v := deriver{o: o, facts: f, target: o.Desired(d), foreign: o.BlockedByForeign(d)}
	v.gpus()
	v.loaded()
	v.add("kernel", OK, "%s, %s", o.Kernel.Release, o.Kernel.Machine)
	if o.Host == "" {
		v.driver(d)
		v.build()
		v.nextKernel()
		v.signatures()
		v.parts()
		v.disk()
		v.lastFailure()
		v.optional(d)
	}
	v.uses()
	v.licenses()
	return Verdict{Checks: v.checks, Next: loader.Next(o, d)}
}

type deriver struct {
	o      loader.Observation
	facts  Facts
	target loader.Driver
	// foreign is set if the loaded driver prevents that the desired driver is loaded.
	foreign bool
	checks  []Check
}

func (v *deriver) add(name string, state State, format string, args ...any) {
	v.checks = append(v.checks, Check{Name: name, State: state, Text: text.Printable(fmt.Sprintf(format, args...))})
}

func (v *deriver) problem(name string, c cause.Cause) {
	v.checks = append(v.checks, Check{Name: name, State: Problem, Text: text.Printable(c.Subject + ": " + c.Text), Cause: &c})
}

func (v *deriver) gpus() {
	var names []string
	for _, g := range v.o.GPUs() {
		name := fmt.Sprintf("%s (%04x:%04x", g.BusID, g.Vendor, g.Product)
		if g.Driver != "" {
			name += ", bound to " + g.Driver
		}
		names = append(names, name+")")
	}
	if len(names) == 0 {
		v.problem("gpu", loader.NoGPUCause())
		return
	}
	v.add("gpu", OK, "%d: %s", len(names), strings.Join(names, ", "))
	if others := v.o.Displaced(); len(others) > 0 && v.o.Host == "" && v.o.Running.Version == "" {
		v.add("gpu", Note, "%s is loaded but not in use: the agent unloads it before it loads the driver", strings.Join(others, ", "))
	}
	for _, c := range v.o.Foreign() {
		v.problem("gpu", c)
	}
}

// loaded reports the loaded or installed driver.
func (v *deriver) loaded() {
	is := v.o.Running
	switch {
	case v.o.Host != "" && is.Version == "":
		v.add("driver", Note, "version %s is installed on the host, but not loaded", v.o.Host)
	case v.o.Host != "":
		v.add("driver", OK, "version %s is installed on the host: the agent uses it without changes", v.o.Host)
	case is.Version != "" && v.foreign:
		v.problem("driver", v.o.ForeignDriverCause())
	case is.Version != "":
		v.add("driver", OK, "version %s is loaded (%s modules)", is.Version, is.Flavour)
	default:
		v.add("driver", OK, "none is loaded")
	}
}

// driver reports the driver to load, and whether its modules support these GPUs.
func (v *deriver) driver(d loader.Desired) {
	if v.target.Version == "" {
		v.problem("payload", v.o.NoPayloadCause(d.Version))
		return
	}
	v.add("payload", OK, "driver %s is in the store", v.target.Version)
	if stack.CoherentDefault(d.Params, v.target.Params) {
		v.add("parameters", Note, "nvidia gets NVreg_CoherentGPUMemoryMode=driver, because GPUs are coupled to a Grace CPU; set the parameter in nvidia.conf for another mode")
	}
	switch reasons, all := v.o.Unsupported(v.target.Flavour); {
	case all:
		v.problem("type", loader.FlavourCause(v.target, reasons))
	case len(reasons) > 0:
		v.add("type", Note, "the %s modules do not support all GPUs: %s", v.target.Flavour, strings.Join(reasons, "; "))
	default:
		v.add("type", OK, "the %s modules support these GPUs", v.target.Flavour)
	}
}

// build reports whether the modules are built, and whether the node has everything to build them.
func (v *deriver) build() {
	if v.target.Version != "" && v.o.Built(v.target) {
		v.add("modules", OK, "built for this kernel, in the store")
		return
	}
	if v.o.Precompiled(v.target) {
		v.add("modules", OK, "the driver has modules for this kernel")
		return
	}
	v.add("modules", OK, "not built yet for this kernel")
	switch f := v.facts; {
	case f.HeadersErr == nil:
		v.add("headers", OK, "%s", f.Headers)
	case f.Repositories != "":
		v.add("headers", Note, "not on this node: %s can install them from the configured repositories", f.Repositories)
	default:
		v.problem("headers", loader.AsCause("headers", f.HeadersErr))
	}
	if v.facts.CompilerErr != nil {
		v.problem("compiler", loader.AsCause("compiler", v.facts.CompilerErr))
		return
	}
	v.add("compiler", OK, "%s", v.facts.Compiler)
}

// nextKernel reports whether the modules for an installed kernel that the node does not run yet are built.
func (v *deriver) nextKernel() {
	switch next := v.facts.NextKernel; {
	case next.Release == "":
	case next.Built:
		v.add("next kernel", OK, "%s is installed, and the modules for it are in the store", next.Release)
	case next.Cause != nil:
		v.add("next kernel", Note, "%s is installed, and the modules for it cannot be built before the reboot: %s: %s", next.Release, next.Cause.Code, next.Cause)
	default:
		v.add("next kernel", Note, "%s is installed: the agent builds the modules for it before the reboot", next.Release)
	}
}

func (v *deriver) signatures() {
	k := v.o.Kernel
	boot := "Secure Boot is off"
	switch {
	case k.SecureBoot == nil:
		boot = "this machine has no Secure Boot"
	case *k.SecureBoot:
		boot = "Secure Boot is on"
	}
	why := check.Demand(k)
	switch {
	case why == "":
		v.add("signatures", OK, "the kernel does not require signatures (%s)", boot)
	case v.facts.Signer:
		v.add("signatures", Note, "the kernel requires signatures (%s): the agent signs the modules with your key, which must be enrolled on this node", why)
	case v.o.Precompiled(v.target):
		v.add("signatures", Note, "the kernel requires signatures (%s): it must know the key that signed the driver's modules", why)
	default:
		v.problem("signatures", cause.New(cause.ModuleUnsigned, "modules", "no signing key is set, but the kernel requires signatures: "+why))
	}
}

// parts reports the state of each kernel module in Facts.Parts.
func (v *deriver) parts() {
	for _, name := range slices.Sorted(maps.Keys(v.facts.Parts)) {
		if where := v.facts.Parts[name]; where != "" {
			v.add(name, OK, "%s", where)
			continue
		}
		v.add(name, Note, "neither loaded, built in nor installed: most GPUs work without it; if the driver needs it, install all modules of the kernel")
	}
}

// optional reports the optional modules. The driver works without them.
func (v *deriver) optional(d loader.Desired) {
	for _, name := range stack.Optional(d.Options) {
		_, loaded := v.o.Modules[name]
		tried, failed := v.o.Tried[v.target.Attempt(name)]
		why := tried.Cause
		switch {
		case loaded:
			v.add(name, OK, "loaded")
		case name == stack.Peermem && !v.o.Adapter:
			v.add(name, OK, "not loaded: this node has no network adapter of NVIDIA (Mellanox)")
		case failed:
			v.add(name, Note, "not loaded, the driver works without it: %s: %s; fix: %s", why.Code, why.Text, why.Fix)
		default:
			v.add(name, OK, "not loaded yet: the agent loads it after the driver")
		}
	}
}

// lastFailure reports why the last attempt to load the driver failed.
func (v *deriver) lastFailure() {
	for _, c := range v.o.LastFailure(v.target) {
		v.problem("load", c)
	}
}

func (v *deriver) disk() {
	switch f := v.facts; {
	case f.FreeErr != nil:
		v.add("disk", Note, "cannot read the free space: %v", f.FreeErr)
	case f.Free < needed && v.target.Version != "" && v.o.Built(v.target):
		v.add("disk", Note, "%d MiB are free; the next driver may need %d MiB", f.Free>>20, needed>>20)
	case f.Free < needed:
		v.problem("disk", cause.New(cause.NoSpace, "store", fmt.Sprintf("%d MiB are free, but a driver and its build may need %d MiB", f.Free>>20, needed>>20)))
	default:
		v.add("disk", OK, "%d MiB are free", f.Free>>20)
	}
}

// uses reports the users of the loaded driver, which prevent only its replacement.
func (v *deriver) uses() {
	order := stack.UnloadOrder(v.o.Modules)
	if len(order) == 0 {
		return
	}
	used := stack.Used(v.o.Modules, order)
	if len(used) == 0 {
		v.add("uses", OK, "no process uses the loaded modules: %s", strings.Join(order, ", "))
		return
	}
	var by []string
	for _, h := range v.facts.Holders {
		by = append(by, h.String())
	}
	who := strings.Join(by, "; ")
	if v.facts.HoldersErr != nil {
		who = strings.TrimPrefix(who+"; "+v.facts.HoldersErr.Error(), "; ")
	}
	if who == "" {
		who = "no process that the agent can see"
	}
	v.add("uses", Note, "%s used by: %s", strings.Join(used, ", "), who)
}

// licenses reports whether virtual GPUs are licensed. A missing license is not a problem for the driver.
func (v *deriver) licenses() {
	if !v.facts.Licensed || v.o.Running.Version == "" {
		return
	}
	if v.facts.LicenseErr != nil {
		v.add("license", Note, "%v", v.facts.LicenseErr)
	}
	for _, p := range v.facts.Products {
		state := OK
		if !p.Licensed() {
			state = Note
		}
		v.add("license", state, "%s: %s: %s", p.GPU, p.Name, p.Status)
	}
}
