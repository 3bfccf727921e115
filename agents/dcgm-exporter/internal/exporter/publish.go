package exporter

import (
	"cmp"
	"maps"
	"slices"
	"time"

	dto "github.com/prometheus/client_model/go"

	"outrigger.dev/agents/dcgm-exporter/internal/exposition"
	"outrigger.dev/agents/dcgm-exporter/internal/jobs"
)

// Served is what a scrape gets. Nothing may change it.
type Served struct {
	Families []*dto.MetricFamily
	// Read has each GPU that was read.
	Read []Read
}

// Read is when a GPU was last read, with the labels of its metrics.
type Read struct {
	Labels []*dto.LabelPair
	At     time.Time
}

// Served returns what a scrape gets. It never blocks.
func (e *Exporter) Served() *Served { return e.served.Load() }

// publish derives what is served from now on.
func (e *Exporter) publish() {
	now := time.Now()
	state := exposition.State{Host: e.cfg.Host, Labels: e.cfg.Labels, Accounts: e.book.Accounts(now)}
	state.Jobs = func(index int, instance uint32) []string { return e.jobs[jobs.Device{GPU: index, Instance: instance}] }
	if e.node != nil {
		state.Driver = e.node.Driver
	}
	if e.cfg.Pods != nil {
		state.Pods = e.cfg.Pods.Last()
	}
	served := &Served{}
	read := false
	for _, d := range e.ordered() {
		if nodeTrouble(e.trouble.Err()) {
			continue
		}
		g := exposition.GPU{GPU: d.gpu, Up: d.err == nil && d.sample != nil && !d.lost, Errors: d.errors}
		if d.sample != nil && !d.lost && now.Sub(d.sample.At) <= e.maxAge() {
			g.Sample = d.sample
			read = true
		} else if d.err == nil && d.sample == nil && !d.lost {
			continue // it is being read for the first time
		}
		d.history.Fill(&g, now, e.current.XIDWindow, e.current.ClockWindow)
		state.GPUs = append(state.GPUs, g)
	}
	served.Families = exposition.Derive(state, e.current)
	for _, g := range state.GPUs {
		if d := e.gpus[g.UUID]; d.sample != nil && !d.lost {
			served.Read = append(served.Read, Read{Labels: exposition.Identity(state, e.current, g), At: d.sample.At})
		}
	}
	e.served.Store(served)
	e.ready.Set(e.unready(read))
}

// unready returns why the metrics are not there.
func (e *Exporter) unready(read bool) error {
	switch err := e.trouble.Err(); {
	case err != nil:
		return err
	case e.node == nil:
		return errStarting
	case !read && len(e.gpus) > 0:
		return errSilent
	default:
		return nil
	}
}

// ordered returns the GPUs by their index.
func (e *Exporter) ordered() []*device {
	return slices.SortedFunc(maps.Values(e.gpus), func(a, b *device) int {
		return cmp.Or(cmp.Compare(a.gpu.Index, b.gpu.Index), cmp.Compare(a.gpu.UUID, b.gpu.UUID))
	})
}
