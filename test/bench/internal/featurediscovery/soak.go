package featurediscovery

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strconv"

	"outrigger.dev/test/bench/internal/endurance"
	"outrigger.dev/test/bench/internal/simnode"
)

// unloadEvery is the number of rounds between reloads of the driver.
const unloadEvery = 8

// Soak runs feature discovery under load for a long time on Node, which has 8 whole GPUs. It checks
// for leaks and for unnecessary writes to the Node.
type Soak struct {
	Node *simnode.Node
	// Changes is the number of label changes after the warm-up.
	Changes int
	// Dir is the folder for the agent's log and its memory samples.
	Dir string
	Out io.Writer
}

// work is the load of years: changes of a node's GPUs.
type work struct {
	agent *agent
	batch *simnode.Batch
	// changes and loads are the numbers of changes of the labels and of the driver. before has the
	// numbers of requests at the start of the count.
	changes, loads int
	before         map[string]int
}

// Run runs the soak and returns an error if the agent leaks something or writes too
// much.
func (s *Soak) Run(ctx context.Context) (err error) {
	if err := s.Node.SetMIG(ctx, "0", "on"); err != nil {
		return err
	}
	b := Bench{Node: s.Node}
	mixed := scene{args: []string{"--mig-strategy", "mixed"}, label: "nvidia.com/mig.strategy", value: "mixed"}
	w := &work{}
	if w.agent, err = b.begin(ctx, mixed, onNode()); err != nil {
		return err
	}
	a := w.agent
	defer func() { err = errors.Join(err, a.stop(), a.KeepLog(filepath.Join(s.Dir, Name+".log"))) }()
	if w.batch, err = s.Node.Batch(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.batch.Close()) }()
	err = endurance.Test{
		Agent: Name, Process: a.Process, Dir: s.Dir, Out: s.Out,
		Round: func(ctx context.Context, i int) error { return w.round(ctx, i, s.Changes/endurance.Rounds) },
		Done: func() string {
			return fmt.Sprintf("%d changes of labels and %d of the driver, %s", w.changes, w.loads, requests(w.before, a.dest.api.Requests()))
		},
	}.Run(ctx)
	return errors.Join(err, w.check())
}

func (w *work) round(ctx context.Context, i, changes int) error {
	if i == 0 {
		w.changes, w.loads, w.before = 0, 0, w.agent.dest.api.Requests()
	}
	for end := w.changes + changes; w.changes < end; {
		if err := w.relabel(ctx); err != nil {
			return err
		}
	}
	// The last round of the warm-up includes a reload, so that all lasting allocations exist.
	if (i+1)%unloadEvery == 0 {
		return w.reload(ctx)
	}
	return nil
}

// relabel creates MIG devices on the first GPU, one after the other, and destroys them
// again, because a reload would destroy them.
func (w *work) relabel(ctx context.Context) error {
	const devices = 7
	for i := range 2 * devices {
		command, count := "mig create 0 1g.5gb", i+1
		if i >= devices {
			// GPU instances of one slice are numbered from 7.
			command, count = fmt.Sprintf("mig destroy 0 %d", i), 2*devices-1-i
		}
		if err := w.until(ctx, slices1g(count), command); err != nil {
			return err
		}
		w.changes++
	}
	return nil
}

// slices1g returns a function that reports whether the labels show this number of MIG
// devices of one slice.
func slices1g(count int) func(node) bool {
	want := strconv.Itoa(count)
	if count == 0 {
		want = ""
	}
	return func(n node) bool { return n.Labels[sliceLabel] == want }
}

// reload unloads the driver and loads it.
func (w *work) reload(ctx context.Context) error {
	for _, step := range []struct{ command, status string }{{"set driver=off", "False"}, {"set driver=on", "True"}} {
		if err := w.until(ctx, ready(step.status), step.command); err != nil {
			return err
		}
		w.loads++
	}
	return nil
}

// until runs a command and waits until the function holds returns true for the Node.
func (w *work) until(ctx context.Context, holds func(node) bool, command string) error {
	if err := w.batch.Do(command); err != nil {
		return err
	}
	_, err := w.agent.until(ctx, holds)
	return err
}

// ready returns a function that reports whether the condition GPUReady has a status.
func ready(status string) func(node) bool {
	return func(n node) bool {
		for _, c := range n.Conditions {
			if c.Type == "GPUReady" {
				return c.Status == status
			}
		}
		return false
	}
}

// check returns an error if the agent wrote the Node more often than needed.
func (w *work) check() error {
	for kind, most := range map[string]int{"patch nodes": w.changes, "patch nodes/status": w.loads} {
		if wrote := w.agent.dest.api.Requests()[kind] - w.before[kind]; wrote > most {
			return fmt.Errorf("check requests: %d of %q for %d changes, want at most one per change", wrote, kind, most)
		}
	}
	return nil
}
