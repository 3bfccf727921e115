package telemetry

import (
	"context"
	"maps"

	gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"

	"outrigger.dev/pkg/gpu/nvml"
)

// reading is one reading of the GPU.
type reading struct {
	sampler *Sampler
	span    *nvml.Span
	ctx     context.Context //nolint:containedctx // a reading exists for one call
	sample  Sample
}

// read reads all values. The error means that the GPU is lost, or that the session has to release
// NVML.
func (r *reading) read() error {
	s := r.sampler
	now := r.sample.At
	fresh := s.static == nil || now.Sub(s.readAt) >= slowPeriod
	if fresh {
		s.static, s.texts, s.readAt = Values{}, map[Field]string{}, now
		s.known, s.peers = map[Field]bool{}, nil
		clear(s.absent)
	}
	s.retry(now)
	for _, g := range s.plan.getters {
		if s.known[g.fields[0]] || !s.wants(g.fields...) {
			continue
		}
		into := r.sample.GPU
		if g.static {
			into = s.static
		}
		err := g.call(r.span.Library(), s.device, r.into(into))
		if g.static && err == nil {
			s.known[g.fields[0]] = true
		}
		if err := r.checkCall(err, g.symbol, g.fields...); err != nil {
			return err
		}
	}
	for f, v := range s.static {
		r.sample.GPU.put(f, v)
	}
	for _, part := range []func() error{r.memory, r.fieldValues, r.units, r.peers} {
		if err := part(); err != nil {
			return err
		}
	}
	r.texts()
	r.sample.Texts = maps.Clone(s.texts)
	r.plausible()
	return context.Cause(r.ctx)
}

// into returns a function that stores the wanted values in v.
func (r *reading) into(v Values) func(Field, float64) {
	return func(f Field, value float64) {
		if r.sampler.wanted[f] {
			v.put(f, value)
		}
	}
}

// checkCall records the result of a call that returns fields. It returns only errors after which the
// other calls need not be tried: the GPU is lost, the driver is gone, or the context has ended.
func (r *reading) checkCall(err error, symbol string, fields ...Field) error {
	if cause := context.Cause(r.ctx); cause != nil {
		return cause
	}
	switch code := nvml.Code(err); code {
	case gonvml.SUCCESS:
		return nil
	case gonvml.ERROR_GPU_IS_LOST, gonvml.ERROR_RESET_REQUIRED:
		return err
	case gonvml.ERROR_NOT_SUPPORTED, gonvml.ERROR_FUNCTION_NOT_FOUND, gonvml.ERROR_NO_PERMISSION, gonvml.ERROR_ARGUMENT_VERSION_MISMATCH:
		if nvml.DriverGone(err) {
			return err
		}
		for _, f := range fields {
			if r.sampler.wanted[f] {
				r.sampler.absent[f] = reason(err)
			}
		}
	default:
		if nvml.DriverGone(err) {
			return err
		}
		r.sample.Failed[symbol]++
	}
	return nil
}

// denied is the reason for values that the driver may permit later.
const denied = "no permission"

// reason returns why a value is absent, as one of a few texts, for a label.
func reason(err error) string {
	switch {
	case nvml.Missing(err):
		return "driver too old"
	case nvml.Code(err) == gonvml.ERROR_NO_PERMISSION:
		return denied
	default:
		return "not supported by the GPU"
	}
}

// memory reads the memory of the GPU, or of its GPU instances.
func (r *reading) memory() error {
	s := r.sampler
	if !s.plan.memory {
		return nil
	}
	if len(s.instances) == 0 {
		return r.checkCall(memory(s.device, r.into(r.sample.GPU)), symMemory, memoryFields()...)
	}
	for id, i := range s.instances {
		if !i.device.Valid() {
			continue
		}
		err := memory(i.device, r.into(r.instance(id)))
		if err != nil {
			// If the MIG device of the handle is gone, another MIG device may exist by now.
			if i.find(s.device); i.device.Valid() {
				err = memory(i.device, r.into(r.instance(id)))
			}
		}
		if err := r.checkCall(err, symMemory); err != nil {
			return err
		}
	}
	return nil
}

// instance returns the values of a GPU instance.
func (r *reading) instance(id uint32) Values {
	if r.sample.Instances == nil {
		r.sample.Instances = map[uint32]Values{}
	}
	if r.sample.Instances[id] == nil {
		r.sample.Instances[id] = Values{}
	}
	return r.sample.Instances[id]
}

// texts reads the values that are text and were not read yet.
func (r *reading) texts() {
	s := r.sampler
	for _, t := range s.plan.texts {
		if _, known := s.texts[t.field]; known || !s.wants(t.field) {
			continue
		}
		value, err := t.read(s.device)
		if err == nil {
			s.texts[t.field] = value
		} else if r.checkCall(err, t.symbol, t.field) != nil {
			return // the next reading reports the error
		}
	}
}

// plausible removes impossible temperatures, which a failing sensor reports.
func (r *reading) plausible() {
	for _, f := range []Field{DCGM_FI_DEV_GPU_TEMP_CELSIUS, DCGM_FI_DEV_MEMORY_TEMP_CELSIUS} {
		if r.sample.GPU[f] > hottest {
			delete(r.sample.GPU, f)
		}
	}
}

// processes reads the processes that use the GPU.
func (r *reading) processes() error {
	s := r.sampler
	running, err := s.device.ComputeProcesses()
	if err != nil {
		return r.checkCall(err, "nvmlDeviceGetComputeRunningProcesses_v3")
	}
	samples, err := s.device.ProcessUtilization(s.processes.seen)
	if err != nil && nvml.Code(err) != gonvml.ERROR_NOT_FOUND {
		if err := r.checkCall(err, "nvmlDeviceGetProcessUtilization"); err != nil {
			return err
		}
	}
	r.sample.Processes = s.processes.update(running, samples)
	return nil
}
