package exporter

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"time"

	dto "github.com/prometheus/client_model/go"

	"outrigger.dev/agents/dcgm-exporter/internal/exposition"
	"outrigger.dev/agents/dcgm-exporter/internal/jobs"
	"outrigger.dev/pkg/gpu"
)

// Served has the metrics for a scrape. It must not be changed.
type Served struct {
	Families []*dto.MetricFamily
	// Read has an entry for each GPU that was read.
	Read []Read
}

// Read has the time of the last reading of a GPU, and the labels of its metrics.
type Read struct {
	Labels []*dto.LabelPair
	At     time.Time
}

// Served returns the metrics for a scrape. It never blocks.
func (e *Exporter) Served() *Served { return e.served.Load() }

// publish derives and stores the metrics to serve.
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
	trouble := e.trouble.Err()
	// Without a driver, GPUs that worked are down. Other errors of the node, such as a claim of
	// NVML, end soon. Until then, the GPUs have no metrics, and are not reported as down.
	unloaded := errors.Is(trouble, gpu.ErrNoDriver)
	view := e.health.View()
	for _, d := range e.ordered() {
		if nodeTrouble(trouble) && !unloaded {
			continue
		}
		answers := d.sample != nil && !d.lost && !unloaded
		g := exposition.GPU{GPU: d.gpu, Up: d.err == nil && answers, Errors: d.errors, Findings: view.Findings[d.gpu.UUID]}
		if answers && now.Sub(d.sample.At) <= e.maxAge() {
			g.Sample = d.sample
			read = true
		} else if d.err == nil && d.sample == nil && !d.lost && !unloaded {
			continue // the first reading has not ended
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

// unready returns why there are no metrics, or nil if there are. read is set if a recent reading
// exists.
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

// ordered returns the GPUs, ordered by index.
func (e *Exporter) ordered() []*device {
	return slices.SortedFunc(maps.Values(e.gpus), func(a, b *device) int {
		return cmp.Or(cmp.Compare(a.gpu.Index, b.gpu.Index), cmp.Compare(a.gpu.UUID, b.gpu.UUID))
	})
}
