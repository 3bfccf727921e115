package loader

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"outrigger.dev/agents/driver-loader/internal/build"
	"outrigger.dev/agents/driver-loader/internal/kernel"
	"outrigger.dev/agents/driver-loader/internal/payload"
	"outrigger.dev/agents/driver-loader/internal/staging"
	"outrigger.dev/pkg/cause"
	"outrigger.dev/pkg/contract"
	"outrigger.dev/pkg/devnode"
	"outrigger.dev/pkg/text"
)

// claimLimit is the longest time until the agents have closed their handles of NVML.
const claimLimit = 30 * time.Second

// act performs a step.
func (l *Loader) act(ctx context.Context, o Observation, s Step) error {
	p, _ := o.payload(s.Driver.Digest)
	if s.Kind == Unload || s.Kind == Load {
		// Without the journal, the loader could not say later what it has loaded.
		if err := staging.Check(l.cfg.Store); err != nil {
			return err
		}
	}
	switch s.Kind {
	case Build:
		return l.build(ctx, o, s)
	case Show:
		return l.show(p)
	case Load:
		return l.load(ctx, o, s)
	case Begin:
		if err := l.rehearse(ctx, o, s.Driver); err != nil {
			return err
		}
		return l.journal.edit(func(r *record) { r.Change = &Change{From: o.changeOrigin(), To: s.Driver} })
	case Rehearse:
		if err := l.rehearse(ctx, o, s.Driver); err != nil {
			return err
		}
		l.setRehearsed(s.Driver)
		return nil
	case Claim:
		return l.claim(ctx, s)
	case Unload:
		if o.Running.Version == "" {
			// Another driver, such as nouveau, has the GPUs. Check the new modules before it is unloaded.
			if err := l.rehearse(ctx, o, s.Driver); err != nil {
				return err
			}
			return l.displace(s)
		}
		return l.unload(s.Modules)
	case Nodes:
		_, err := devnode.Keep(l.cfg.Nodes)
		return err
	case Start:
		return l.start(ctx)
	case Validate:
		if err := l.validate(ctx, o); err != nil {
			return err
		}
		l.validated = s.Driver
		return nil
	case Finish:
		return l.journal.edit(func(r *record) { r.Change = nil })
	case Publish:
		if s.Driver.Digest != "" {
			if err := l.journal.edit(func(r *record) { r.Works = s.Driver }); err != nil {
				return err
			}
		}
		return l.cfg.Contract.Write(contract.DriverReady, l.record(o))
	case Wait, Done, Import:
		return nil
	}
	return fmt.Errorf("perform the step %q: it is unknown", s.Kind)
}

// build builds the modules of a driver, or one of its optional modules alone.
func (l *Loader) build(ctx context.Context, o Observation, s Step) error {
	p, _ := o.payload(s.Driver.Digest)
	request := l.request(o.Kernel, p, s.Driver.Flavour)
	l.background.interrupt()
	if s.optional == "" {
		_, err := l.cfg.Builder.Build(ctx, request)
		return err
	}
	tools, toolsErr := l.cfg.Builder.ToolsID(ctx, o.Kernel.Release, o.Kernel.Machine)
	base, built := o.set(s.Driver)
	var err error
	if built {
		_, err = l.cfg.Builder.BuildAlone(ctx, request, base, o.alone(s.optional))
	} else {
		_, err = l.cfg.Builder.Build(ctx, request)
	}
	if toolsErr == nil && cause.Is(err, cause.ModuleBuildFailed) {
		return &rejectedError{error: err, tools: tools}
	}
	return err
}

// request returns the request to build the modules of a driver.
func (l *Loader) request(k kernel.Kernel, p payload.Payload, f payload.Flavour) build.Request {
	return build.Request{
		Release: k.Release, Machine: k.Machine, Banner: k.Banner, Payload: p, Flavour: f, Jobs: l.cfg.Jobs, Signer: l.cfg.Signer,
	}
}

// claim removes the fact driver-ready, claims NVML, and stops the daemons.
func (l *Loader) claim(ctx context.Context, s Step) error {
	if err := l.cfg.Contract.Remove(contract.DriverReady); err != nil {
		return err
	}
	grant, err := l.cfg.Contract.NVML().Claim(ctx, Name, s.String(), claimLimit)
	if errors.Is(err, contract.ErrNoRunRoot) {
		return fmt.Errorf("claim NVML: %w", err)
	}
	l.grant = grant
	if err != nil || l.cfg.Daemons == nil {
		return err
	}
	return l.cfg.Daemons.Stop(ctx)
}

// start starts the daemons of the driver.
func (l *Loader) start(ctx context.Context) error {
	skipped, err := l.cfg.Daemons.Start(ctx)
	if skipped != nil {
		l.cfg.Log.Error("cannot start a daemon of the driver, continuing without it", "err", skipped)
	}
	if l.cfg.Started != nil {
		l.cfg.Started()
	}
	return err
}

// release releases NVML. If the driver could not be unloaded, release starts its daemons again, and
// writes the fact again.
func (l *Loader) release(ctx context.Context) {
	if l.grant == nil {
		return
	}
	if err := l.restore(ctx); err != nil && ctx.Err() == nil {
		l.cfg.Log.Error("cannot restore the driver that stays loaded", "err", err)
	}
	if err := l.grant.Release(); err != nil {
		l.cfg.Log.Error("cannot release the claim of NVML", "err", err)
	}
	l.grant = nil
}

// restore starts the daemons of a driver that stays loaded, and writes its fact. It does not look for users
// of the driver, because some machines hide processes.
func (l *Loader) restore(ctx context.Context) error {
	o, err := l.observeDriver()
	if o.Running.Version == "" {
		return err
	}
	if l.cfg.Daemons != nil {
		err = errors.Join(err, l.start(ctx))
	}
	if l.published(o) != o.Running.ModuleVersion() && (o.runsLastWorking() || o.Host != "") {
		err = errors.Join(err, l.cfg.Contract.Write(contract.DriverReady, l.record(o)))
	}
	return err
}

// unload unloads modules in the given order.
func (l *Loader) unload(modules []string) error {
	for _, name := range modules {
		l.cfg.Log.Info("unloading module", "module", name)
		if err := l.calls.Unload(name); err != nil && !cause.Is(err, cause.ModuleNotLoaded) {
			return err
		}
	}
	return nil
}

// failed records in the journal that the new driver of a change does not work, so that the previous
// driver is loaded again. It returns false for a step that says nothing about the driver.
func (l *Loader) failed(ctx context.Context, o Observation, s Step, err error) bool {
	c := o.Change
	if cause.Is(err, cause.NoSpace) || cause.Is(err, cause.FolderReadOnly) {
		return false
	}
	if c == nil || c.Failed != nil || !c.To.same(s.Driver) || c.From.Version == "" || !provesDriver(s.Kind) {
		return false
	}
	why := causes(s, err)[0]
	l.cfg.Log.Error("driver does not work, rolling back to the previous driver", "driver", s.Driver.Version, "before", c.From.Version, "err", err)
	if err := l.journal.edit(func(r *record) { r.Change.Failed = &why }); err != nil {
		l.cfg.Log.Error("cannot record the failure of the driver in the journal, waiting", "err", err)
		return false
	}
	if l.cfg.Daemons != nil {
		if err := l.cfg.Daemons.Stop(ctx); err != nil {
			l.cfg.Log.Error("cannot stop the daemons of the driver", "err", err)
		}
	}
	return true
}

// causes returns the causes in an error.
func causes(s Step, err error) []cause.Cause {
	var many interface{ Unwrap() []error }
	if errors.As(err, &many) {
		var out []cause.Cause
		for _, one := range many.Unwrap() {
			out = append(out, AsCause(s.String(), one))
		}
		return out
	}
	return []cause.Cause{AsCause(s.String(), err)}
}

// AsCause returns the cause in an error. Without one, it returns a Cause with the text of the error.
func AsCause(subject string, err error) cause.Cause {
	if c, ok := errors.AsType[cause.Cause](err); ok {
		return c
	}
	if code := staging.Code(err); code != "" {
		return cause.New(code, subject, text.OneLine(err))
	}
	fix := ""
	if errors.Is(err, fs.ErrPermission) {
		fix = "run the driver loader as root, in a privileged container"
	}
	return cause.Cause{Code: cause.Failed, Subject: subject, Text: text.OneLine(err), Fix: fix}
}
