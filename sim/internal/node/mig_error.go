package node

import (
	"errors"
	"fmt"
	"strings"

	"outrigger.dev/sim/internal/state"
)

// explain adds the cause and the fix to an error of a MIG change or a reset.
func (n *Node) explain(g state.GPU, err error) error {
	switch {
	case errors.Is(err, state.ErrInUse):
		return n.inUseError(g, err)
	case errors.Is(err, state.ErrLost):
		return fmt.Errorf("%w; bring it back first (gpu-sim heal %d)", err, g.Index)
	}
	mig, readErr := n.state.MIG(g.Slot)
	switch {
	case readErr != nil:
		return err
	case errors.Is(err, state.ErrNoMIG) && mig.Pending:
		return fmt.Errorf("%w, and pending to be on: reset the GPU first (gpu-sim reset %d)", err, g.Index)
	case errors.Is(err, state.ErrNoMIG):
		return fmt.Errorf("%w; switch it on first (gpu-sim mig mode %d on)", err, g.Index)
	case errors.Is(err, state.ErrNoRoom):
		return fmt.Errorf("%w: %s; see \"gpu-sim mig profiles %d\", or destroy some first (gpu-sim mig destroy %d)", err, n.describeUse(g, mig), g.Index, g.Index)
	default:
		return err
	}
}

// describeUse describes the slices of a GPU that its instances use.
func (n *Node) describeUse(g state.GPU, mig state.MIG) string {
	board, err := n.state.Board(g.Slot)
	if err != nil || len(mig.GPUInstances) == 0 {
		return "nothing is taken"
	}
	var list []string
	compute := 0
	for _, gi := range mig.GPUInstances {
		list = append(list, fmt.Sprintf("%d to %d by %s", gi.Start, gi.Start+gi.Size-1, gi.Profile))
		if profile, _, err := board.Find(gi.Profile); err == nil {
			compute += profile.Slices
		}
	}
	return fmt.Sprintf("%d of %d compute slices are taken, and of %d memory slices %s",
		compute, board.ComputeSlices, board.MemorySlices, strings.Join(list, ", "))
}

// inUseError adds the processes on a GPU to an error.
func (n *Node) inUseError(g state.GPU, err error) error {
	processes, listErr := n.state.Processes(g.Slot)
	if listErr != nil {
		return err
	}
	if len(processes) == 0 {
		return fmt.Errorf("%w by a program with read-only access to the state, as in a container; end it first", err)
	}
	var pids []string
	for _, p := range processes {
		pids = append(pids, fmt.Sprint(p.PID))
	}
	return fmt.Errorf("%w by process %s; end it first (gpu-sim proc end %d %s)", err, strings.Join(pids, ", "), g.Index, pids[0])
}

// checkUnused returns an error if a process uses one of the instances.
func (n *Node) checkUnused(g state.GPU, doomed []state.GPUInstance) error {
	for _, gi := range doomed {
		for _, ci := range gi.ComputeInstances {
			used, err := n.state.InUse(g.Slot, gi.ID, ci.ID)
			if used {
				err = n.inUseError(g, fmt.Errorf("destroy MIG device %d/%d of GPU %d: %w", gi.ID, ci.ID, g.Index, state.ErrInUse))
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}
