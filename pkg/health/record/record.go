// Package record shares the XIDs that count against GPUs between the agents of a node, so that an agent
// that starts has the same verdict as the agents that observed the XIDs. The XIDs are in a file below
// the run root (contract.GPUIncidents), and are valid until the next boot.
//
// Each agent writes the XIDs that it observes, and removes those whose end it observes. An agent reads
// the file once, before its first verdict.
package record

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"outrigger.dev/pkg/contract"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/health"
	"outrigger.dev/pkg/reconcile"
)

// energyLimit is the time limit for reading the energy counters. A GPU can hang after an XID.
const energyLimit = 2 * time.Second

// Config configures a Record.
type Config struct {
	// Contract is the folder of the files that the agents of the node share.
	Contract contract.Dir
	// Source reads energy counters if it is a gpu.Meter.
	Source gpu.Source
	// Writer is the name of the program.
	Writer string
	Log    *slog.Logger
}

// Record shares the incidents of one Machine. A nil *Record shares nothing.
type Record struct {
	cfg  Config
	loop *reconcile.Loop

	// The goroutine of the Machine owns these fields. loaded has the incidents that Restore has read, until
	// Save knows which of them the Machine still has.
	restored bool
	loaded   []health.Incident

	// measured has the energy counters of an XID that is not written yet, so that an attempt to write it again
	// calls no driver. A counter that cannot be read is nil. The goroutine of Run owns it.
	measured map[gpu.UUID]*uint64

	mu sync.Mutex
	// now has the incidents of the Machine.
	now   []health.Incident
	known known
	// warned is the last warning about the content of the file.
	warned string
}

// New returns a Record. It writes nothing before Run.
func New(cfg Config) *Record {
	r := &Record{cfg: cfg, known: known{}}
	r.loop = reconcile.New(reconcile.Config{
		Name: "xids", Step: r.step, Patient: true, Failed: r.failed, Log: cfg.Log,
	})
	return r
}

// Restore adds the XIDs in the file to a Machine that is about to observe its first snapshot. Later calls
// do nothing.
//
// An energy counter that is lower than after the XID proves that the driver has initialized the GPU
// anew since then. Restore reads it for GPUs with XIDs in the file, and takes 2 s at most.
func (r *Record) Restore(ctx context.Context, m *health.Machine, n *gpu.Node) {
	if r == nil || r.restored {
		return
	}
	r.restored = true
	t := r.parse(r.cfg.Contract.Read(contract.GPUIncidents), newClock())
	if len(t) == 0 {
		return
	}
	var measured []gpu.UUID
	for _, e := range t {
		if g := n.ByUUID(e.GPU); e.energy != nil && g != nil && g.Fault == nil {
			measured = append(measured, e.GPU)
		}
	}
	energy := r.energy(ctx, measured)
	var incidents []health.Incident
	var names []string
	for _, e := range t {
		r.loaded = append(r.loaded, e.Incident)
		if mJ, read := energy[e.GPU]; read && e.energy != nil && mJ < *e.energy {
			e.Away = true
		}
		incidents = append(incidents, e.Incident)
		names = append(names, fmt.Sprintf("%s: %d", e.GPU, e.XID))
	}
	m.Restore(incidents)
	slices.Sort(names)
	r.cfg.Log.Info("read xids from before the start of this process", "xids", names)
}

// Save shares the incidents of a Machine. It does not block.
func (r *Record) Save(m *health.Machine) {
	if r == nil {
		return
	}
	now := m.Incidents()
	r.mu.Lock()
	defer r.mu.Unlock()
	if slices.Equal(now, r.now) && len(r.loaded) == 0 {
		return
	}
	for _, in := range r.loaded {
		if _, has := r.known[in.Key]; !has {
			r.known[in.Key] = in
		}
	}
	r.now, r.loaded = now, nil
	r.loop.Wake()
}

// Run writes the incidents until ctx ends, and then once more.
func (r *Record) Run(ctx context.Context) error {
	if r == nil {
		return nil
	}
	err := r.loop.Run(ctx)
	if _, last := r.step(ctx); last != nil && !errors.Is(last, contract.ErrNoRunRoot) {
		r.failed(last, 0)
	}
	return err
}

// step writes the change since the last step. It writes nothing if another agent has written the same.
func (r *Record) step(ctx context.Context) (reconcile.Result, error) {
	r.mu.Lock()
	c := r.known.to(r.now)
	r.mu.Unlock()
	clock := newClock()
	gpus, changed := r.parse(r.cfg.Contract.Read(contract.GPUIncidents), clock).apply(c, nil)
	if changed {
		energy := r.measure(ctx, gpus)
		err := r.cfg.Contract.Update(contract.GPUIncidents, r.cfg.Writer, func(f contract.Fact) (*contract.Record, error) {
			t := r.parse(f, clock)
			if _, changed := t.apply(c, energy); !changed {
				return nil, nil //nolint:nilnil // another agent has written the same
			}
			return &contract.Record{Values: t.values(clock)}, nil
		})
		if err != nil {
			return reconcile.Result{}, err
		}
	}
	r.measured = nil
	r.mu.Lock()
	defer r.mu.Unlock()
	r.known.record(c)
	return reconcile.Result{}, nil
}

// parse returns the incidents in the file.
func (r *Record) parse(f contract.Fact, c clock) table {
	t, text := table{}, ""
	switch {
	case f.State == contract.Unreadable:
		text = f.Reason
	case f.State == contract.Valid && f.Stamp.Writer != "":
		var err error
		if t, err = parse(f.Values, c); err != nil {
			text = fmt.Sprintf("%s: %v", r.cfg.Contract.Path(contract.GPUIncidents), err)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.warned != text && text != "" {
		r.cfg.Log.Warn("cannot use all xids that other agents observed, going on without them", "err", text)
	}
	r.warned = text
	return t
}

// measure returns the energy counters of GPUs. It reads each counter once until the XIDs are written.
func (r *Record) measure(ctx context.Context, gpus []gpu.UUID) map[gpu.UUID]uint64 {
	if r.measured == nil {
		r.measured = map[gpu.UUID]*uint64{}
	}
	missing := slices.DeleteFunc(slices.Clone(gpus), func(id gpu.UUID) bool { _, has := r.measured[id]; return has })
	energy := r.energy(ctx, missing)
	for _, id := range missing {
		r.measured[id] = nil
		if mJ, read := energy[id]; read {
			r.measured[id] = &mJ
		}
	}
	out := map[gpu.UUID]uint64{}
	for id, mJ := range r.measured {
		if mJ != nil {
			out[id] = *mJ
		}
	}
	return out
}

// energy reads the energy counters of GPUs. It leaves out counters that cannot be read.
func (r *Record) energy(ctx context.Context, gpus []gpu.UUID) map[gpu.UUID]uint64 {
	out := map[gpu.UUID]uint64{}
	meter, ok := r.cfg.Source.(gpu.Meter)
	if !ok || ctx.Err() != nil || len(gpus) == 0 {
		return out
	}
	ctx, cancel := context.WithTimeout(ctx, energyLimit)
	defer cancel()
	slices.Sort(gpus)
	for _, id := range slices.Compact(gpus) {
		if mJ, err := meter.Energy(ctx, id); err == nil {
			out[id] = mJ
		}
	}
	return out
}

// failed logs why the file cannot be written. A node without a run root is normal for a tool that runs
// alone.
func (r *Record) failed(err error, _ time.Duration) {
	if errors.Is(err, contract.ErrNoRunRoot) {
		r.cfg.Log.Debug("no file for the xids of the gpus", "err", err)
		return
	}
	r.cfg.Log.Warn("cannot share the xids of the gpus with other agents, retrying", "err", err)
}
