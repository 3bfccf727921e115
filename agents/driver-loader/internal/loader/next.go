package loader

import (
	"strings"

	"outrigger.dev/agents/driver-loader/internal/payload"
	"outrigger.dev/agents/driver-loader/internal/stack"
	"outrigger.dev/pkg/cause"
)

// Next derives the next step of a node.
func Next(o Observation, d Desired) Step {
	switch {
	case len(o.GPUs()) == 0:
		return wait(NoGPUCause())
	case o.Host != "":
		return useHostDriver(o)
	case o.ownedByContainer():
		return wait(containerCause(o.Running))
	case d.Upgrading != "":
		return wait(cause.Cause{Code: cause.UpgradeInProgress, Subject: "driver", Text: d.Upgrading})
	}
	target, back, missing := o.target(d)
	kept := d.Keep && o.Running.Version != ""
	switch {
	case kept:
		back = back && !o.differs(target)
		target = o.Running.known(o)
	case missing != nil:
		return wait(*missing)
	case o.Running.Version == "":
		return o.loadFirst(target, d)
	case o.differs(target) && o.foreign(d):
		return wait(o.ForeignDriverCause())
	case o.differs(target):
		return o.replace(target)
	}
	if step, needed := o.complete(target, d); needed {
		return step
	}
	step := o.settle(target, back, d)
	if step.Kind == Done {
		step = o.optional(step, d)
	}
	if step.Kind == Done && kept {
		return o.prepare(step, d)
	}
	return step
}

// prepare returns the step of a node whose driver works and stays until an upgrade replaces the driver. The
// step builds or checks the new driver in advance, to make the replacement short and to report obstacles
// early.
func (o Observation) prepare(done Step, d Desired) Step {
	next, missing := o.desired(d)
	switch {
	case missing != nil:
		done.Causes = []cause.Cause{*missing}
	case !o.differs(next):
	case o.foreign(d):
		done.Causes = []cause.Cause{o.ForeignDriverCause()}
	case len(o.obstacles(next)) > 0:
		done.Causes = o.obstacles(next)
	case !o.Built(next):
		return Step{Kind: Build, Driver: next, Optional: done.Optional, ahead: true}
	case o.toBuild(next, d) != "":
		return Step{Kind: Build, Driver: next, Optional: done.Optional, optional: o.toBuild(next, d)}
	case !o.Rehearsed.same(next):
		return Step{Kind: Rehearse, Driver: next, Optional: done.Optional, ahead: true}
	}
	return done
}

func wait(causes ...cause.Cause) Step { return Step{Kind: Wait, Causes: causes} }

// useHostDriver returns the step of a node with a driver that is installed on the host. The driver is
// not changed.
func useHostDriver(o Observation) Step {
	if o.Running.Version == "" {
		return wait(cause.New(cause.HostDriverNotLoaded, "driver "+o.Host, "it is installed on the host, but its kernel module is not loaded"))
	}
	if o.MissingNodes > 0 {
		return Step{Kind: Nodes, Driver: o.Running}
	}
	if o.Published != o.Running.ModuleVersion() {
		return Step{Kind: Publish, Driver: o.Running}
	}
	return Step{Kind: Done, Driver: o.Running}
}

// desired returns the desired driver, or why it is not available.
func (o Observation) desired(d Desired) (Driver, *cause.Cause) {
	if d.driver != nil {
		if _, ok := o.payload(d.driver.Digest); !ok {
			missing := o.NoPayloadCause(d.driver.Version)
			return Driver{}, &missing
		}
		return *d.driver, nil
	}
	p, found := o.choose(d)
	if !found {
		missing := o.NoPayloadCause(d.Version)
		return Driver{}, &missing
	}
	flavour := d.Flavour
	if flavour == "" {
		flavour = o.auto(p)
	}
	return Driver{Version: p.Version, Flavour: flavour, Digest: p.Digest, Params: stack.WithDefaults(d.Params, p.Version, o.hostGPUs())}, nil
}

// target returns the driver to load: the desired one, or the previous one if the desired one has failed.
// In the second case, back is set.
func (o Observation) target(d Desired) (target Driver, back bool, missing *cause.Cause) {
	desired, missing := o.desired(d)
	c := o.Change
	if missing != nil || c == nil || c.Failed == nil || !c.To.same(desired) {
		if _, ok := o.payload(o.Before.Digest); ok && d.Instead != nil && o.Before.ID() == d.Instead(desired.ID()) {
			return o.Before, false, nil
		}
		return desired, false, missing
	}
	if len(c.Restored) > 0 {
		why := c.gaveBack()
		return Driver{}, false, &why
	}
	if _, ok := o.payload(c.From.Digest); !ok {
		return Driver{}, false, &cause.Cause{
			Code: cause.PreviousDriverMissing, Subject: "driver " + desired.Version, Text: "it failed (" + c.Failed.Error() + "), and driver " + c.From.Version + ", which was loaded before, is not in the store",
			Fix: "import driver " + c.From.Version + ", or choose another driver",
		}
	}
	return c.From, true, nil
}

// same reports whether two drivers load the same modules with the same parameters.
func (a Driver) same(b Driver) bool {
	return a.Version == b.Version && a.Flavour == b.Flavour && a.Digest == b.Digest && a.Params.Equal(b.Params)
}

// known adds the digest of the payload with the same version, if the store has it, or else of a payload whose modules
// state this version.
func (a Driver) known(o Observation) Driver {
	for _, version := range []func(string) string{strings.Clone, payload.ModuleVersion} {
		for _, p := range o.Payloads {
			if version(p.Version) == a.Version {
				a.Version, a.Digest = p.Version, p.Digest
				return a
			}
		}
	}
	return a
}

// differs reports whether the loaded driver has to be replaced. Parameters of modules that are not loaded
// do not matter.
func (o Observation) differs(target Driver) bool {
	if o.Noted && (!o.Running.Params.Of(o.Modules).Equal(target.Params.Of(o.Modules)) || o.Running.Version != target.Version) {
		return true
	}
	return o.Running.ModuleVersion() != target.ModuleVersion() || o.Running.Flavour != target.Flavour || target.Params.Differ(o.Modules)
}

// loadFirst returns the step of a node without a loaded driver.
func (o Observation) loadFirst(target Driver, d Desired) Step {
	if causes := o.obstacles(target); len(causes) > 0 {
		return wait(causes...)
	}
	if _, built := o.set(target); !built {
		return Step{Kind: Build, Driver: target}
	}
	// The journal makes a rollback possible even after a reboot.
	if _, way := o.payload(o.Before.Digest); way && !o.Before.same(target) && !o.inJournal(target) {
		return Step{Kind: Begin, Driver: target}
	}
	if others := o.Displaced(); len(others) > 0 {
		return Step{Kind: Unload, Driver: target, Modules: others}
	}
	if !o.shown(target) {
		return Step{Kind: Show, Driver: target}
	}
	return Step{Kind: Load, Driver: target, Modules: stack.Wanted(d.Options)}
}

// inJournal reports whether the journal has a change to the driver, or a rollback to it.
func (o Observation) inJournal(target Driver) bool {
	c := o.Change
	return c != nil && (c.Failed == nil && c.To.same(target) || c.Failed != nil && c.From.same(target))
}

// changeOrigin returns the driver that a rollback loads again.
func (o Observation) changeOrigin() Driver {
	if o.Running.Version == "" {
		return o.Before
	}
	return o.Running
}

// replace returns the step of a node whose loaded driver has to be replaced.
func (o Observation) replace(target Driver) Step {
	if causes := o.obstacles(target); len(causes) > 0 {
		return wait(causes...)
	}
	// Until the new modules are built, the node keeps its driver.
	if _, built := o.set(target); !built {
		return Step{Kind: Build, Driver: target}
	}
	if !o.inJournal(target) {
		return Step{Kind: Begin, Driver: target}
	}
	order := stack.UnloadOrder(o.Modules)
	if !o.Claimed && len(o.Users) > 0 {
		return o.users(order)
	}
	if !o.Claimed {
		return Step{Kind: Claim, Driver: target, Modules: order}
	}
	if used := stack.Used(o.Modules, order); len(used) > 0 {
		return wait(InUse(used, o.Holders)...)
	}
	return Step{Kind: Unload, Driver: target, Modules: order}
}

// runsLastWorking reports whether the loaded driver is the driver that worked last.
func (o Observation) runsLastWorking() bool {
	return o.Running.same(o.Before) || !o.Noted && o.Running.ModuleVersion() == o.Before.ModuleVersion()
}

// users returns the step of a node whose driver is in use. The driver keeps working, and NVML is not
// claimed, because the agents would close their handles without an effect.
func (o Observation) users(order []string) Step {
	if o.Published != o.Running.ModuleVersion() && o.runsLastWorking() {
		return Step{Kind: Publish, Driver: o.Before}
	}
	step := wait(InUse(stack.Used(o.Modules, order), o.Users)...)
	step.Users = true
	return step
}

// complete returns the step that loads the missing modules or shows the missing root of a loaded driver.
func (o Observation) complete(target Driver, d Desired) (Step, bool) {
	if target.Digest == "" {
		// The driver is not from the store, and stays as it is.
		return Step{}, false
	}
	var missing []string
	for _, name := range stack.Wanted(d.Options) {
		if _, ok := o.Modules[name]; !ok {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		if _, built := o.set(target); !built {
			return Step{Kind: Build, Driver: target}, true
		}
	}
	if !o.shown(target) {
		return Step{Kind: Show, Driver: target}, true
	}
	if len(missing) > 0 {
		return Step{Kind: Load, Driver: target, Modules: missing}, true
	}
	return Step{}, false
}

// settle returns the step of a node with the right driver loaded. If back is set, this is the previous
// driver, because the desired one has failed.
func (o Observation) settle(target Driver, back bool, d Desired) Step {
	switch {
	case o.MissingNodes > 0:
		return Step{Kind: Nodes, Driver: target}
	case len(o.Daemons) > 0:
		return Step{Kind: Start, Driver: target}
	case !o.Validated.same(target):
		return Step{Kind: Validate, Driver: target}
	case o.Change != nil && !back && !d.hold:
		return Step{Kind: Finish, Driver: target}
	case o.Published != target.ModuleVersion():
		return Step{Kind: Publish, Driver: target}
	}
	done := Step{Kind: Done, Driver: target}
	if back {
		again := "send SIGHUP to try again"
		if d.Keep || d.driver != nil {
			again = "request the upgrade again"
		}
		done.Causes = []cause.Cause{o.Change.rolledBack(again)}
	}
	return done
}
