package deviceplugin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"time"

	"outrigger.dev/pkg/hostfs"
	"outrigger.dev/test/bench/internal/simnode"
)

const (
	// rounds is how often the memory is looked at after the warm-up, and warmUp
	// how many rounds go before.
	rounds = 40
	warmUp = 4
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
	defer func() { err = errors.Join(err, p.stop(), s.keep("device-plugin.log", p.log)) }()
	batch, err := s.Node.Batch(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, batch.Close()) }()
	w := &work{process: p, batch: batch, gpus: s.GPUs}
	if w.ids, err = p.ids(ctx, s.GPUs*replicas); err != nil {
		return err
	}
	return s.measure(ctx, w)
}

func (s *Soak) measure(ctx context.Context, w *work) error {
	for range warmUp {
		if err := s.round(ctx, w); err != nil {
			return err
		}
	}
	// A loss makes what stays, too.
	if err := w.loss(ctx); err != nil {
		return err
	}
	before, err := w.process.gauges(ctx)
	if err != nil {
		return err
	}
	w.allocated, w.raised = 0, 0
	begin := time.Now()
	samples := make([]float64, rounds)
	for i := range samples {
		if err := s.round(ctx, w); err != nil {
			return err
		}
		if i%loseEvery == loseEvery-1 {
			if err := w.loss(ctx); err != nil {
				return err
			}
		}
		if samples[i], err = w.process.status("VmRSS"); err != nil {
			return err
		}
	}
	seen := trendOf(samples)
	after, left := w.process.settle(ctx, before)
	fmt.Fprintf(s.Out, "%d allocations and %d health events in %s\n", w.allocated, w.raised, time.Since(begin).Round(time.Second))
	fmt.Fprintf(s.Out, "memory      %.2f MiB → %.2f MiB, second half %+.2f MiB\n", seen.first, seen.last, seen.rise)
	fmt.Fprintf(s.Out, "goroutines  %d → %d\n", before.goroutines, after.goroutines)
	fmt.Fprintf(s.Out, "files       %d → %d\n", before.files, after.files)
	return errors.Join(seen.check(), left, s.write("memory.txt", samples))
}

// round does its part of the allocations and events.
func (s *Soak) round(ctx context.Context, w *work) error {
	if err := w.allocate(ctx, s.Allocations/rounds); err != nil {
		return err
	}
	for end := w.raised + s.Events/rounds; w.raised < end; {
		if err := w.sickness(ctx); err != nil {
			return err
		}
	}
	return nil
}

// keep copies a file to where the results are.
func (s *Soak) keep(name, from string) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return fmt.Errorf("keep %s: %w", name, err)
	}
	return hostfs.WriteFile(filepath.Join(s.Dir, name), data, 0o644)
}

func (s *Soak) write(name string, samples []float64) error {
	var data []byte
	for _, v := range samples {
		data = fmt.Appendf(data, "%.2f\n", v)
	}
	return hostfs.WriteFile(filepath.Join(s.Dir, name), data, 0o644)
}

// gauges are what a process has open.
type gauges struct{ goroutines, files int }

func (p *process) gauges(ctx context.Context) (g gauges, err error) {
	text, err := p.metrics(ctx)
	if err != nil {
		return g, err
	}
	for name, to := range map[string]*int{"go_goroutines": &g.goroutines, "process_open_fds": &g.files} {
		found := regexp.MustCompile(`(?m)^` + name + ` (\d+)$`).FindStringSubmatch(text)
		if found == nil {
			return g, fmt.Errorf("read /metrics: it has no %s", name)
		}
		if *to, err = strconv.Atoi(found[1]); err != nil {
			return g, err
		}
	}
	return g, nil
}

// settle waits until the plugin has no more open than before, and returns what
// it has at last, and an error if that is more.
func (p *process) settle(ctx context.Context, before gauges) (gauges, error) {
	ctx, cancel := limited(ctx)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	var last gauges
	for {
		now, err := p.gauges(ctx)
		switch {
		case err == nil && now.goroutines <= before.goroutines && now.files <= before.files:
			return now, nil
		case err == nil:
			last = now
		case ctx.Err() == nil:
			return last, err
		}
		select {
		case <-ctx.Done():
			return last, fmt.Errorf("%d goroutines and %d files are open, %d and %d before",
				last.goroutines, last.files, before.goroutines, before.files)
		case <-tick.C:
		}
	}
}
