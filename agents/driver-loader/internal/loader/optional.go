package loader

import (
	"context"
	"errors"
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
	Given string    `json:"given"`
	At    time.Time `json:"at,omitzero"`
	// Tools is set if the compiler rejected the module. It is the result of Builder.ToolsID before the build.
	Tools string      `json:"tools,omitempty"`
	Cause cause.Cause `json:"cause"`

	// repeats is set if the compiler would reject the module again.
	repeats bool
}

// recent reports whether it is too early to try again without a change.
func (a Attempt) recent() bool { return a.repeats || !a.over() }

// over reports whether the pause after an attempt is over. It is over for an attempt in the future: the clock was ahead
// when the journal recorded it.
func (a Attempt) over() bool {
	age := time.Since(a.At)
	return age < 0 || age >= attemptInterval
}

// attemptInterval is the time between attempts to load an optional module without a change of the node.
const attemptInterval = 10 * time.Minute

// rejectedError is the error of a build that the compiler rejected.
type rejectedError struct {
	error
	// tools is the result of Builder.ToolsID before the build.
	tools string
}

func (e *rejectedError) Unwrap() error { return e.error }

// observeTools finds the builds of optional modules that would fail again.
func (l *Loader) observeTools(ctx context.Context, o *Observation) {
	now := ""
	for key, tried := range o.Tried {
		if tried.Tools == "" || !tried.over() {
			continue
		}
		if now == "" {
			now, _ = l.cfg.Builder.ToolsID(ctx, o.Kernel.Release, o.Kernel.Machine)
		}
		tried.repeats = tried.Tools == now
		o.Tried[key] = tried
	}
}

// optional returns the step of a node whose driver works: the step that loads a missing optional module,
// or done with the states of the optional modules.
func (o Observation) optional(done Step, d Desired) Step {
	if done.Driver.Digest == "" {
		// The driver is not from the store, and stays as it is.
		return done
	}
	step := done
	for _, name := range stack.Optional(d.Options) {
		state := OptionalModule{Module: name}
		_, state.Loaded = o.Modules[name]
		if tried, failed := o.Tried[done.Driver.Attempt(name)]; failed && !state.Loaded && o.supports(name) {
			state.Cause = &tried.Cause
		}
		step.Optional = append(step.Optional, state)
		// An upgrade has cordoned the node, and does not wait for builds.
		build := !o.Built(done.Driver) || o.outdated(done.Driver, name)
		switch {
		case state.Loaded || step.optional != "" || !o.wanted(done.Driver, name) || build && d.driver != nil:
		case build:
			step.Kind, step.optional = Build, name
		default:
			step.Kind, step.Modules, step.optional = Load, []string{name}, name
		}
	}
	return step
}

// toBuild returns an optional module to build for a driver that is built, before an upgrade to it. It
// returns "" if all are built.
func (o Observation) toBuild(d Driver, desired Desired) string {
	for _, name := range stack.Optional(desired.Options) {
		if o.wanted(d, name) && o.outdated(d, name) {
			return name
		}
	}
	return ""
}

// supports reports whether the node has the hardware for an optional module.
func (o Observation) supports(name string) bool { return name != stack.Peermem || o.Adapter }

// wanted reports whether to try an optional module of a driver: the node has the hardware for it, and it has
// not failed in the same circumstances.
func (o Observation) wanted(d Driver, name string) bool {
	tried, failed := o.Tried[d.Attempt(name)]
	return o.supports(name) && !(failed && tried.recent() && tried.Given == o.given(d, name))
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
	if rejected, is := errors.AsType[*rejectedError](err); is {
		tried.Tools = rejected.tools
	}
	if err := l.journal.edit(func(r *record) { r.Tried = with(r.Tried, s.Driver.Attempt(s.optional), tried) }); err != nil {
		l.cfg.Log.Warn("cannot record in the journal that an optional module is not loaded, continuing", "module", s.optional, "err", err)
	}
	if l.cfg.Skipped != nil && o.Tried[s.Driver.Attempt(s.optional)].Cause != why {
		l.cfg.Skipped(why)
	}
}

// Attempt returns the key of the attempts to load an optional module of a driver. The loaded driver and the
// driver of the next upgrade have separate attempts.
func (a Driver) Attempt(module string) string { return module + " " + a.ID() }

// maxAttempts is the largest number of attempts in the journal. Attempts of removed drivers are not needed.
const maxAttempts = 20

// with returns attempts with one more.
func with(attempts map[string]Attempt, key string, a Attempt) map[string]Attempt {
	if attempts == nil || len(attempts) >= maxAttempts {
		attempts = map[string]Attempt{}
	}
	attempts[key] = a
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
