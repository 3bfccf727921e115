package telemetry

import (
	"errors"
	"slices"
	"time"

	gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"

	"outrigger.dev/pkg/gpu/nvml"
)

// units reads the metrics of GPM of the GPU and of each GPU instance.
func (r *reading) units() error {
	s := r.sampler
	whole, parts := s.metrics(true), s.metrics(false)
	if len(whole)+len(parts) == 0 {
		return nil
	}
	if err := r.supported(); err != nil || !s.asked {
		return err
	}
	if !s.gpm {
		for _, u := range slices.Concat(whole, parts) {
			s.absent[u.field] = "needs GPM, which Hopper and later GPUs have"
		}
		return nil
	}
	if len(s.instances) == 0 {
		whole, parts = slices.Concat(whole, parts), nil
	}
	if len(whole) > 0 {
		if err := r.gauge(&s.whole, -1, whole, r.sample.GPU); err != nil {
			return err
		}
	}
	for id, i := range s.instances {
		// A GPU instance without a compute instance has no counters.
		if len(parts) == 0 || !i.device.Valid() {
			continue
		}
		if err := r.gauge(&i.gauge, int(id), parts, r.instance(id)); err != nil {
			return err
		}
	}
	return nil
}

// supported asks whether the GPU has GPM, until the driver has answered.
func (r *reading) supported() error {
	s := r.sampler
	if s.asked {
		return nil
	}
	has, err := s.device.GPMSupported()
	if err == nil || nvml.Missing(err) || nvml.Code(err) == gonvml.ERROR_NOT_SUPPORTED {
		s.gpm, s.asked = err == nil && has, true
		return nil
	}
	return r.checkCall(err, symGPMSupport)
}

// metrics returns the wanted metrics of the whole GPU, or of GPU instances.
func (s *Sampler) metrics(whole bool) []unit {
	var out []unit
	for _, u := range s.plan.units {
		if _, absent := s.absent[u.field]; u.whole == whole && !absent {
			out = append(out, u)
		}
	}
	return out
}

// gauge takes a sample of the counters and reads the metrics of the time since the last sample.
func (r *reading) gauge(g *gauge, instance int, wanted []unit, into Values) error {
	fields := make([]Field, len(wanted))
	metrics := make([]gonvml.GpmMetric, len(wanted))
	for i, u := range wanted {
		fields[i], metrics[i].MetricId = u.field, uint32(u.id)
	}
	ready, err := g.takeSample(r.span.Library(), r.sampler.device, instance, r.sampler.cfg.Now())
	if err == nil && ready {
		err = r.span.Library().GPMMetrics(g.earlier, g.later, metrics)
	}
	if err != nil {
		if instance >= 0 {
			fields = nil // fail only this instance: another instance may have these fields
		}
		return r.checkCall(err, symGPM, fields...)
	}
	if !ready {
		r.sample.Begun = true
		return nil
	}
	for i, m := range metrics {
		if ret := gonvml.Return(m.NvmlReturn); ret != gonvml.SUCCESS {
			absent := fields[i : i+1]
			if instance >= 0 {
				absent = nil
			}
			if err := r.checkCall(&nvml.Error{Symbol: symGPM, Return: ret}, symGPM, absent...); err != nil {
				return err
			}
			continue
		}
		into.put(wanted[i].field, m.Value*wanted[i].scale)
	}
	return nil
}

// gauge has the last two samples of the counters of a GPU or GPU instance.
type gauge struct {
	earlier, later nvml.GPMSample
	at             time.Time
	taken, full    bool
}

// takeSample takes a sample, unless the last one is too recent. It reports whether there are two
// samples.
func (g *gauge) takeSample(library nvml.Library, d nvml.Device, instance int, now time.Time) (bool, error) {
	if g.taken && now.Sub(g.at) < gpmPause {
		return false, nil
	}
	next := g.earlier
	if !g.full {
		var err error
		if next, err = library.NewGPMSample(); err != nil {
			return false, err
		}
	}
	if err := next.Read(d, instance); err != nil {
		if !g.full {
			err = errors.Join(err, next.Free())
		}
		return false, err
	}
	g.earlier, g.later, g.at = g.later, next, now
	g.full, g.taken = g.taken, true
	return g.full, nil
}

// free frees the samples. The samples of a span that has ended must not be freed, because the end of
// the span has freed them.
func (g *gauge) free() {
	if g.full {
		_ = g.earlier.Free() // Free cannot fail: the same library allocated the sample
	}
	if g.taken {
		_ = g.later.Free()
	}
	*g = gauge{}
}
