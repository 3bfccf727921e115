package deviceplugin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"outrigger.dev/test/bench/internal/endurance"
	"outrigger.dev/test/bench/internal/simnode"
)

const (
	// replicas is the number of devices per GPU in a soak.
	replicas = 10
	// loseEvery is the number of rounds between losses of all GPUs. The plugin polls for a loss
	// every two seconds.
	loseEvery = 8
)

// Soak runs the device plugin under load for a long time on Node, and checks for leaks
// of memory, goroutines and files.
type Soak struct {
	Node *simnode.Node
	GPUs int
	// Allocations and Events are the numbers of each after the warm-up.
	Allocations, Events int
	// Dir is the folder for the plugin's log and its memory samples.
	Dir string
	Out io.Writer
}

// Run runs the soak and returns an error if the plugin leaks something.
func (s *Soak) Run(ctx context.Context) (err error) {
	b := Bench{Node: s.Node}
	config, err := b.config(replicated(replicas))
	if err != nil {
		return err
	}
	p, err := start(ctx, s.Node, "--config-file", config)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.stop(), p.KeepLog(filepath.Join(s.Dir, Name+".log"))) }()
	batch, err := s.Node.Batch(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, batch.Close()) }()
	w := &work{plugin: p, batch: batch, gpus: s.GPUs}
	if w.ids, err = p.ids(ctx, s.GPUs*replicas); err != nil {
		return err
	}
	return endurance.Test{
		Agent: Name, Process: p.Process, Dir: s.Dir, Out: s.Out,
		Round: func(ctx context.Context, i int) error { return s.round(ctx, w, i) },
		Done: func() string {
			return fmt.Sprintf("%d allocations and %d health events", w.allocated, w.raised)
		},
	}.Run(ctx)
}

// round does one round's share of the allocations and events.
func (s *Soak) round(ctx context.Context, w *work, i int) error {
	if i == 0 {
		w.allocated, w.raised = 0, 0
	}
	if err := w.allocate(ctx, s.Allocations/endurance.Rounds); err != nil {
		return err
	}
	for end := w.raised + s.Events/endurance.Rounds; w.raised < end; {
		if err := w.faults(ctx); err != nil {
			return err
		}
	}
	// The last round of the warm-up includes a loss, so that all lasting allocations exist.
	if (i+1)%loseEvery == 0 {
		return w.loss(ctx)
	}
	return nil
}
