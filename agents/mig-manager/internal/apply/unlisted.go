package apply

import (
	"errors"
	"fmt"
	"strings"

	"outrigger.dev/agents/mig-manager/internal/plan"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/mig"
)

// InTheWay is returned if a change would destroy instances that NVML does not list. They are kept,
// because they cannot be created again.
type InTheWay struct {
	// GPU is the name of the GPU for nvidia-smi.
	GPU      string
	Unlisted []mig.Unlisted
	// Err is the reason why the desired devices do not fit together with them, nil for a change of
	// the mode.
	Err error
}

// Error names the instances and the fix.
func (e *InTheWay) Error() string {
	var names, fixes []string
	for _, u := range e.Unlisted {
		names = append(names, u.String())
		fixes = append(fixes, fmt.Sprintf("nvidia-smi mig -dci -gi %d -i %s; nvidia-smi mig -dgi -gi %d -i %s", u.ID, e.GPU, u.ID, e.GPU))
	}
	text := fmt.Sprintf("%s is in the way, and the agent could not create it again: destroy it by hand (%s)", strings.Join(names, ", "), strings.Join(fixes, "; "))
	if e.Err != nil {
		text += fmt.Sprintf(", or select MIG devices that fit beside it: %s", e.Err)
	}
	return text
}

// Unwrap returns the cause.
func (e *InTheWay) Unwrap() error { return e.Err }

// boardBesideUnlisted returns the board without the space of unlisted instances.
func boardBesideUnlisted(g mig.GPU) mig.Board { return g.Board.Beside(g.Unlisted) }

// explainUnlisted returns an *InTheWay if the error would not occur without the unlisted instances,
// and otherwise err.
func explainUnlisted(g mig.GPU, err error, without func(mig.Board) error) error {
	if err == nil || len(g.Unlisted) == 0 || without(g.Board) != nil {
		return err
	}
	return &InTheWay{GPU: g.Selector(), Unlisted: g.Unlisted, Err: err}
}

// fit is plan.Target for a GPU that keeps its unlisted instances.
func fit(g mig.GPU, want map[gpu.Profile]int, inUse func(mig.Instance) bool) (mig.Layout, error) {
	now := g.Layout
	if !g.Enabled {
		now = nil
	}
	layout, err := plan.Target(boardBesideUnlisted(g), now, want, inUse)
	if _, infeasible := errors.AsType[*plan.Infeasible](err); !infeasible {
		return layout, err
	}
	return nil, explainUnlisted(g, err, func(b mig.Board) error {
		_, err := plan.Target(b, now, want, nil)
		return err
	})
}

// checkUnlisted returns an *InTheWay if a change destroys all instances of a GPU with unlisted instances.
func (c Change) checkUnlisted() error {
	if len(c.GPU.Unlisted) == 0 || !c.Reset && c.GPU.Enabled == c.Target.Enabled {
		return nil
	}
	return &InTheWay{GPU: c.GPU.Selector(), Unlisted: c.GPU.Unlisted}
}
