package loader

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"outrigger.dev/agents/driver-loader/internal/kernel"
	"outrigger.dev/agents/driver-loader/internal/stack"
	"outrigger.dev/pkg/cause"
)

// Failure is the last step that failed. The journal records it, so that the command plan can report it.
type Failure struct {
	Driver Driver        `json:"driver"`
	Causes []cause.Cause `json:"causes"`
}

// LastFailure returns why the last attempt to load the driver failed, or nil. It ignores the failures of
// other drivers.
func (o Observation) LastFailure(d Driver) []cause.Cause {
	if o.Failure == nil || !o.Failure.Driver.same(d) {
		return nil
	}
	return o.Failure.Causes
}

// recordFailure records a failed step in the journal, or removes the record after success (nil).
func (l *Loader) recordFailure(o Observation, f *Failure) {
	if f == nil && o.Failure == nil {
		return
	}
	if err := l.journal.edit(func(r *record) { r.Failure = f }); err != nil {
		l.cfg.Log.Warn("cannot record in the journal which step failed, continuing", "err", err)
	}
}

// fail handles a failed step. It returns false if another step may follow: the rollback to the previous
// driver. Otherwise, the kernel's own driver is loaded again if it was unloaded for this driver.
func (l *Loader) fail(ctx context.Context, o Observation, s Step, err error) (stops bool) {
	if ctx.Err() != nil {
		return true
	}
	if l.failed(ctx, o, s, err) {
		return false
	}
	if s.Kind != Build {
		l.recordFailure(o, &Failure{Driver: s.Driver, Causes: causes(s, err)})
	}
	if provesDriver(s.Kind) {
		if err := l.giveBack(ctx, s, causes(s, err)[0]); err != nil {
			l.cfg.Log.Error("cannot load the kernel's own driver again", "err", err)
		}
	}
	return true
}

// provesDriver reports whether a failure of a step means that its driver does not work.
func provesDriver(k Kind) bool { return slices.Contains([]Kind{Show, Load, Start, Validate}, k) }

// displace unloads the kernel's own driver, after the journal has recorded its modules.
func (l *Loader) displace(s Step) error {
	err := l.journal.edit(func(r *record) {
		if r.Change == nil || r.Change.From.Version == "" {
			r.Change = &Change{To: s.Driver}
		}
		r.Change.Displaced = s.Modules
	})
	if err != nil {
		return err
	}
	return l.unload(s.Modules)
}

// giveBack loads the kernel's own driver again, if it was unloaded for a driver that does not work. The
// journal then has the failure, so that the driver is not tried again by itself.
func (l *Loader) giveBack(ctx context.Context, s Step, why cause.Cause) error {
	noted, err := l.journal.read()
	if err != nil || noted.Change == nil || len(noted.Change.Displaced) == 0 {
		return err
	}
	if l.cfg.Daemons != nil {
		if err := l.cfg.Daemons.Stop(ctx); err != nil {
			return err
		}
	}
	o, err := l.observeDriver()
	if err != nil {
		return err
	}
	order := stack.UnloadOrder(o.Modules)
	if used := stack.Used(o.Modules, order); len(used) > 0 {
		by, err := l.Holders(ctx)
		return fmt.Errorf("unload driver %s first: %w", o.Running.Version, errors.Join(append(cause.Errors(InUse(used, by)), err)...))
	}
	if err := l.unload(order); err != nil {
		return err
	}
	if err := l.loadAgain(ctx, o, noted.Change.Displaced); err != nil {
		return err
	}
	return l.journal.edit(func(r *record) {
		if r.Change.From.Version == "" {
			r.Change = &Change{To: s.Driver, Failed: &why, Restored: noted.Change.Displaced}
			return
		}
		r.Change.Displaced = nil
	})
}

// loadAgain loads modules of the kernel that were unloaded in the given order.
func (l *Loader) loadAgain(ctx context.Context, o Observation, unloaded []string) error {
	index, err := l.index(o)
	if err != nil {
		return err
	}
	loaded, err := kernel.Modules(l.cfg.Kernel)
	if err != nil {
		return err
	}
	var errs []error
	for _, name := range slices.Backward(unloaded) {
		files, err := index.Files(name)
		if err == nil {
			err = l.loadFiles(ctx, files, loaded)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// gaveBack returns the cause of a failed driver after the kernel's own driver was loaded again.
func (c Change) gaveBack() cause.Cause {
	return cause.Cause{
		Code: c.Failed.Code, Subject: "driver " + c.To.Version,
		Text: "it does not work on this node, and " + strings.Join(c.Restored, ", ") + " was loaded again: " + c.Failed.Subject + ": " + c.Failed.Text,
		Fix:  strings.TrimPrefix(c.Failed.Fix+"; then send SIGHUP to try again, or choose another driver", "; "),
	}
}
