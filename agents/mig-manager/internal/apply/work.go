package apply

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"outrigger.dev/agents/mig-manager/internal/plan"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/mig"
	"outrigger.dev/pkg/gpu/nvml/partition"
)

// work changes GPUs while NVML is initialized.
type work struct {
	*transaction
	view *partition.View
	// ctx ends with the time for the change: then nothing more is changed, also not when a call
	// that hung answers at last. The lease is not held any more.
	ctx context.Context //nolint:containedctx // that of the phase
}

// errModeBusy says that a mode was not set because the GPU is in use.
var errModeBusy = errors.New("the driver does not change the mode while the GPU is in use")

// gpu reads a GPU, which has to work.
func (w *work) gpu(id gpu.UUID) (mig.GPU, error) {
	g, err := w.view.GPU(id)
	if err == nil && g.Fault != nil {
		err = faultError(g)
	}
	return g, err
}

// readMember reads the GPU of a member, unless it was read since NVML was initialized.
func (w *work) readMember(m *member) error {
	if m.read == w.view {
		return nil
	}
	g, err := w.gpu(m.id)
	if err == nil {
		m.gpu, m.read = g, w.view
	}
	return err
}

// checkUnused returns an *InUse if processes use what has to go, right before that is touched: GPUs
// before this one may have taken their time. A GPU that goes back is not asked: its devices are new,
// and the driver refuses to destroy what is in use.
func (w *work) checkUnused(m *member, to mig.State) error {
	c := changeTo(m.gpu, to)
	c.Reset = c.Reset || m.fabric
	if m.undo || !c.disturbs() {
		return nil
	}
	return w.retry(func() error {
		if err := w.ctx.Err(); err != nil {
			return err
		}
		list, err := w.view.Processes(m.id)
		if err != nil {
			return err
		}
		if list = slices.DeleteFunc(list, c.keepsInstancesOf); len(list) == 0 {
			return nil
		}
		return &InUse{GPU: m.id, Index: m.index, Holders: w.cfg.Processes.addOwners(m.gpu, list)}
	}, func(err error) bool { _, used := errors.AsType[*InUse](err); return used })
}

// prepare sets the mode of a GPU, whose instances it destroys first. It marks the member if
// the mode waits for a reset.
func (w *work) prepare(m *member, to mig.State) error {
	if err := w.readMember(m); err != nil {
		return err
	}
	g := m.gpu
	if err := w.checkUnused(m, to); err != nil {
		return err
	}
	if g.Enabled == to.Enabled && g.Pending == to.Pending {
		return nil
	}
	if g.Enabled != to.Pending {
		if err := w.takeSteps(m, g, nil); err != nil {
			return err
		}
	}
	err := w.retry(func() error {
		if err := w.ctx.Err(); err != nil {
			return err
		}
		activation, err := w.view.SetMode(m.id, to.Pending)
		if err != nil || activation != partition.Busy {
			return err
		}
		// A mode that needs a reset is pending, also while something has the GPU open, such as
		// nvidia-persistenced: whether the GPU can be reset is for the reset to say.
		if now, err := w.gpu(m.id); err != nil || now.NeedsReset && now.Pending == to.Pending {
			return err
		}
		return errModeBusy
	}, func(err error) bool { return errors.Is(err, errModeBusy) })
	if errors.Is(err, errModeBusy) {
		return errors.Join(w.holders(m, nil), err)
	}
	if err != nil {
		return err
	}
	m.steps++
	if g, err = w.gpu(m.id); err != nil {
		return err
	}
	m.gpu = g
	switch {
	case g.Enabled == to.Enabled:
		return nil
	case g.Pending == to.Enabled:
		m.reset = true
		return nil
	default:
		return fmt.Errorf("set MIG mode: the driver reported success, and the mode is still %s", modeText(g.Enabled))
	}
}

func modeText(on bool) string {
	if on {
		return "enabled"
	}
	return "disabled"
}

// finish brings the members of a unit to their layouts, once their modes are set.
func (w *work) finish(u unit, to func(*member) mig.State) {
	for _, m := range u {
		m.err = w.finishOne(m, to(m))
	}
}

func (w *work) finishOne(m *member, to mig.State) error {
	if err := w.readMember(m); err != nil {
		return err
	}
	g := m.gpu
	if g.Enabled != to.Enabled && g.Pending == to.Enabled && m.reset {
		if m.reboot == "" {
			m.reboot = "the mode is still pending after a reset of the GPU"
		}
		return nil
	}
	m.reboot = ""
	if g.Enabled != to.Enabled || g.Pending != to.Pending {
		return fmt.Errorf("set MIG mode: the mode is %s (pending %s), want %s", modeText(g.Enabled), modeText(g.Pending), modeText(to.Enabled))
	}
	if !g.Enabled {
		return nil
	}
	if err := w.takeSteps(m, g, to.Layout); err != nil {
		return err
	}
	// Only what is observed counts.
	g, err := w.gpu(m.id)
	if err != nil {
		return err
	}
	if !g.Layout.Equal(to.Layout) {
		return fmt.Errorf("the driver reported success, and the layout differs: %v instead of %v", g.Layout.Devices(), to.Layout.Devices())
	}
	return nil
}

// takeSteps takes the steps of a GPU to a layout.
func (w *work) takeSteps(m *member, g mig.GPU, to mig.Layout) error {
	for _, s := range plan.Steps(boardBesideUnlisted(g), g.Layout, to) {
		err := w.retry(func() error {
			if err := w.ctx.Err(); err != nil {
				return fmt.Errorf("%s: %w", s, err)
			}
			return w.view.Do(m.id, s)
		}, partition.InUse)
		if partition.InUse(err) {
			return errors.Join(w.holders(m, &s), err)
		}
		if err != nil {
			return err
		}
		m.steps++
	}
	return nil
}

// holders returns an *InUse with the processes that use a GPU, or what a step destroys of it.
func (w *work) holders(m *member, s *mig.Step) error {
	e := &InUse{GPU: m.id, Index: m.index}
	if list, err := w.view.Processes(m.id); err == nil {
		g, err := w.view.GPU(m.id)
		list = slices.DeleteFunc(list, func(p mig.Holder) bool { return s != nil && err == nil && !concerns(g, *s, p) })
		e.Holders = w.cfg.Processes.addOwners(g, list)
	}
	if len(e.Holders) == 0 {
		e.Open, e.Modules = w.cfg.Processes.withOpenDevice(w.ctx, m.gpu), w.cfg.Processes.displayModules()
	}
	return e
}

// concerns reports whether a process uses the GPU instance of a step.
func concerns(g mig.GPU, s mig.Step, p mig.Holder) bool {
	for _, i := range g.Layout {
		if i.ID == p.GPUInstance {
			return i.Profile == s.Profile && i.Placement == s.Placement
		}
	}
	return false
}

// inUse is holders for a GPU while NVML is not initialized.
func (t *transaction) inUse(ctx context.Context, m *member) error {
	err, failed := granted(ctx, t, func(v *partition.View) (error, error) {
		return (&work{transaction: t, view: v, ctx: ctx}).holders(m, nil), nil
	})
	return errors.Join(err, failed)
}
