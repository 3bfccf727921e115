package loader

import (
	"fmt"
	"time"

	"outrigger.dev/agents/driver-loader/internal/build"
	"outrigger.dev/agents/driver-loader/internal/cache"
	"outrigger.dev/agents/driver-loader/internal/payload"
	"outrigger.dev/agents/driver-loader/internal/stack"
	"outrigger.dev/pkg/cause"
)

// OptionalModule is the state of a module that is selected, and that the driver works without.
type OptionalModule struct {
	Module string `json:"module"`
	Loaded bool   `json:"loaded"`
	// Cause says why the module is not loaded. It is nil for a loaded module, and for a module that this
	// node has no hardware for.
	Cause *cause.Cause `json:"cause,omitempty"`
}

// Attempt is a failed attempt to load an optional module. The journal records it.
type Attempt struct {
	// Given identifies the circumstances. If they change, the module is tried again.
	Given string `json:"given"`
	// At is the time of the attempt. It is zero after a failure of the compiler, which would repeat.
	At    time.Time   `json:"at,omitzero"`
	Cause cause.Cause `json:"cause"`
}

// recent reports whether it is too early to try again without a change.
func (a Attempt) recent() bool { return a.At.IsZero() || time.Since(a.At) < attemptInterval }

// attemptInterval is the time between attempts to load an optional module without a change of the node.
const attemptInterval = 10 * time.Minute

// optional returns the step of a node whose driver works: the step that loads a missing optional module,
// or done with the states of the optional modules.
func (o Observation) optional(done Step, d Desired) Step {
	if done.Driver.Digest == "" {
		// The driver is not from the store, and stays as it is.
		return done
	}
	next := ""
	for _, name := range stack.Optional(d.Options) {
		state := OptionalModule{Module: name}
		_, state.Loaded = o.Modules[name]
		tried, failed := o.Tried[name]
		missing := !state.Loaded && (name != stack.Peermem || o.Adapter)
		if missing && failed {
			state.Cause = &tried.Cause
		}
		if missing && next == "" && !(failed && tried.recent() && tried.Given == o.given(done.Driver, name)) {
			next = name
		}
		done.Optional = append(done.Optional, state)
	}
	if next == "" {
		return done
	}
	step := done
	step.optional = next
	if !o.Built(done.Driver) || o.outdated(done.Driver, next) {
		step.Kind = Build
		return step
	}
	step.Kind, step.Modules = Load, []string{next}
	return step
}

// given identifies the circumstances that decide whether an optional module of a driver can be loaded. The
// driver of network adapters loads ib_core, and nvidia_peermem depends on it.
func (o Observation) given(d Driver, name string) string {
	set, _ := o.set(d)
	_, network := o.Modules[networkCore]
	return fmt.Sprintf("%s %s %s %s %t %s", d.ID(), set.Key.Sum(), set.Built, o.Network, network, o.Sources[name].Digest)
}

// alone describes how an optional module is built alone.
func (o Observation) alone(name string) build.Alone {
	source := o.Sources[name]
	return build.Alone{Module: name, Source: source.Dir, Digest: source.Digest}
}

// optionalSet returns the set that has an optional module: the modules of the driver, or the module alone.
// If the module has its own sources and was not built, the result is zero.
func (o Observation) optionalSet(d Driver, name string) cache.Set {
	base, _ := o.set(d)
	alone, built := o.set(Driver{Digest: d.Digest, Flavour: payload.Flavour(build.AloneFlavour(string(d.Flavour), o.alone(name)))})
	_, separate := o.Sources[name]
	if separate || built && (o.Network == "" || o.Network != base.Network) {
		return alone
	}
	return base
}

// outdated reports whether an optional module has to be built alone: from its own sources, or nvidia_peermem
// because it was built without the headers of the driver of network adapters, or with other headers.
func (o Observation) outdated(d Driver, name string) bool {
	set := o.optionalSet(d, name)
	return set.Key.Sources == "" || name == stack.Peermem && o.Network != "" && set.Network != o.Network
}

// networkCore is the module that network adapters register with.
const networkCore = "ib_core"

// skip records that an optional module cannot be loaded. The driver works without it.
func (l *Loader) skip(o Observation, s Step, err error) {
	why := optionalCause(s.optional, causes(s, err)[0])
	l.cfg.Log.Error("cannot load an optional module, continuing without it", "module", s.optional, "code", why.Code, "cause", why.Text, "fix", why.Fix)
	tried := Attempt{Given: o.given(s.Driver, s.optional), At: time.Now(), Cause: why}
	if cause.Is(err, cause.ModuleBuildFailed) {
		tried.At = time.Time{}
	}
	if err := l.journal.edit(func(r *record) { r.Tried = with(r.Tried, s.optional, tried) }); err != nil {
		l.cfg.Log.Warn("cannot record in the journal that an optional module is not loaded, continuing", "module", s.optional, "err", err)
	}
	if l.cfg.Skipped != nil && o.Tried[s.optional].Cause != why {
		l.cfg.Skipped(why)
	}
}

// with returns attempts with one more.
func with(attempts map[string]Attempt, module string, a Attempt) map[string]Attempt {
	if attempts == nil {
		attempts = map[string]Attempt{}
	}
	attempts[module] = a
	return attempts
}

// optionalCause returns the cause for an optional module, from the reason why it was not loaded.
func optionalCause(name string, why cause.Cause) cause.Cause {
	code := map[string]cause.Code{
		stack.Peermem: cause.RDMAUnavailable, stack.Storage: cause.GDSUnavailable, stack.GDRCopy: cause.GDRCopyUnavailable,
	}[name]
	c := cause.New(code, "module "+name, why.Text)
	if why.Subject != c.Subject {
		c.Text = why.Subject + ": " + why.Text
	}
	if why.Fix != "" && why.Code != cause.ModuleNotInDriver {
		c.Fix = why.Fix
	}
	return c
}
