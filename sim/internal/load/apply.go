package load

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"outrigger.dev/sim/internal/node"
	"outrigger.dev/sim/internal/state"
)

// Apply changes the recorded loads of the node in the folder root with update, and sets the values
// of its GPUs for the time now. It costs almost nothing without loads.
func Apply(root string, now time.Time, update func([]Load) []Load) (err error) {
	if _, err := os.Stat(filepath.Join(root, recordFile)); errors.Is(err, fs.ErrNotExist) && len(update(nil)) == 0 {
		return nil
	}
	// The error of a missing node names the fix.
	n, err := node.Open(root, node.Machine())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, n.Close()) }()
	return withLock(root, func() error {
		was, err := read(root)
		if err != nil {
			return err
		}
		wanted := was.clone()
		wanted.Loads = update(slices.Clone(was.Loads))
		gpus, err := observe(n.State())
		if err != nil {
			return err
		}
		changes, next := derive(gpus, wanted, now)
		return commit(n.State(), root, plan{was: was, during: merge(wanted, next), next: next, changes: changes})
	})
}

// plan has the changes of a node, and its record before, during and after them.
type plan struct {
	was, during, next record
	changes           []change
}

// commit records the values from before the loads before it changes them, so that a process that is
// killed loses none.
func commit(s *state.State, root string, p plan) error {
	if err := p.during.write(root, p.was); err != nil {
		return err
	}
	var errs []error
	for _, c := range p.changes {
		errs = append(errs, c.apply(s))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("show the loads: %w", err)
	}
	return p.next.write(root, p.during)
}

// merge returns next, with the entries of was that next no longer has.
func merge(was, next record) record {
	out := was
	for key, before := range next.Before {
		if out.Before == nil {
			out.Before = map[string]map[string]uint64{}
		}
		values := map[string]uint64{}
		maps.Copy(values, out.Before[key])
		maps.Copy(values, before)
		out.Before[key] = values
	}
	for uuid, pids := range next.PIDs {
		if out.PIDs == nil {
			out.PIDs = map[string][]int{}
		}
		all := append(slices.Clone(out.PIDs[uuid]), pids...)
		slices.Sort(all)
		out.PIDs[uuid] = slices.Compact(all)
	}
	return out
}

func observe(s *state.State) ([]observed, error) {
	var out []observed
	for _, g := range s.Show().GPUs {
		limits, err := s.Limits(g.Slot)
		if errors.Is(err, state.ErrNoGPU) {
			continue // unplugged meanwhile
		}
		if err != nil {
			return nil, err
		}
		out = append(out, observed{g, limits})
	}
	return out, nil
}

// apply writes a change. A GPU, an instance or a process that has gone meanwhile needs none.
func (c change) apply(s *state.State) error {
	var errs []error
	if len(c.values)+len(c.instances) > 0 {
		errs = append(errs, s.SetValues(c.slot, c.values, c.instances))
	}
	for _, pid := range c.drop {
		errs = append(errs, s.DropProcess(c.slot, pid))
	}
	for _, p := range c.attach {
		errs = append(errs, s.AttachProcess(c.slot, p))
	}
	errs = slices.DeleteFunc(errs, func(err error) bool {
		return err == nil || errors.Is(err, state.ErrNoGPU) || errors.Is(err, state.ErrNoInstance) ||
			errors.Is(err, state.ErrNoProcess) || errors.Is(err, state.ErrLost)
	})
	return errors.Join(errs...)
}
