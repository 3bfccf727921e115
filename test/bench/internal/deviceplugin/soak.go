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
	// replicas is how often each GPU is offered in a soak.
	replicas = 10
	// loseEvery is after how many rounds all GPUs are lost and come back, which
	// the plugin finds out by asking, every two seconds.
	loseEvery = 8
)

// Soak lets the device plugin on Node, which has GPUs of a number, work for
// long, and looks whether something is left behind: memory, goroutines, files.
type Soak struct {
	Node *simnode.Node
	GPUs int
	// Allocations and Events are how many there are after the warm-up.
	Allocations, Events int
	// Dir is where the plugin's log and the samples of its memory go.
	Dir string
	Out io.Writer
}

// Run returns an error if something is left behind.
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

// round does its part of the allocations and events.
func (s *Soak) round(ctx context.Context, w *work, i int) error {
	if i == 0 {
		w.allocated, w.raised = 0, 0
	}
	if err := w.allocate(ctx, s.Allocations/endurance.Rounds); err != nil {
		return err
	}
	for end := w.raised + s.Events/endurance.Rounds; w.raised < end; {
		if err := w.sickness(ctx); err != nil {
			return err
		}
	}
	// The last round of the warm-up has a loss too: it makes what stays.
	if (i+1)%loseEvery == 0 {
		return w.loss(ctx)
	}
	return nil
}
