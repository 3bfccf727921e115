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
	// ctx ends with the time limit of the change. After that, GPUs must not be changed, even if a
	// call returns late, because the lease is not held any more.
	ctx context.Context //nolint:containedctx // a work exists for one phase
}

// errModeBusy is returned if the mode was not set because the GPU is in use.
var errModeBusy = errors.New("the driver does not change the mode while the GPU is in use")

// gpu reads a GPU. A GPU with a fault is an error.
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

// checkUnused returns an *InUse if processes use instances that the change destroys. It is called
// right before the change, because changes of other GPUs may have taken long. It skips a rollback:
// the instances are new, and the driver does not destroy instances in use.
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

// prepare destroys the instances of a GPU and sets its mode, if the mode changes. It marks the member
// if the mode takes effect after a reset.
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
		// A mode that needs a reset is pending even if the GPU is open, for example by
		// nvidia-persistenced. The reset then shows whether the GPU is in use.
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
		return fmt.Errorf("set MIG mode: the driver reported success, but the mode is still %s", modeText(g.Enabled))
	}
}

func modeText(on bool) string {
	if on {
		return "enabled"
	}
	return "disabled"
}

// finish creates the layouts of the members of a unit, after their modes are set.
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
	// Only the observed layout counts.
	g, err := w.gpu(m.id)
	if err != nil {
		return err
	}
	if !g.Layout.Equal(to.Layout) {
		return fmt.Errorf("the driver reported success, but the layout differs: %v instead of %v", g.Layout.Devices(), to.Layout.Devices())
	}
	return nil
}

// takeSteps performs the steps of a GPU to a layout.
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

// holders returns an *InUse with the processes that use the GPU, or the instance that a step destroys.
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

// inUse is holders for a caller outside of a phase: it initializes NVML first.
func (t *transaction) inUse(ctx context.Context, m *member) error {
	err, failed := granted(ctx, t, func(v *partition.View) (error, error) {
		return (&work{transaction: t, view: v, ctx: ctx}).holders(m, nil), nil
	})
	return errors.Join(err, failed)
}
