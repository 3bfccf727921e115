package telemetry

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/nvml"
)

const (
	// slowPeriod is the time that static values are kept. After the same time, a value that the GPU
	// does not support is requested again.
	slowPeriod = 10 * time.Minute
	// deniedPeriod is the time after which a value that the driver denies is requested again. Some
	// drivers deny a value forever, and some only for a while.
	deniedPeriod = 15 * time.Second
	// gpmPause is the minimum time between two samples of GPM (nvml.h).
	gpmPause = 110 * time.Millisecond
	// hottest is the highest temperature that DCGM accepts, in degrees Celsius.
	hottest = 200
)

// Config configures a Sampler.
type Config struct {
	Session *nvml.Session
	// GPU is the UUID of the GPU.
	GPU gpu.UUID
	// Fields are the wanted values. Fields without a source are absent.
	Fields []Field
	// Now returns the current time. If nil, it is time.Now.
	Now func() time.Time
}

// Sampler reads one GPU. Its methods must not be called concurrently; Samplers of several
// GPUs may share a Session.
type Sampler struct {
	cfg    Config
	wanted map[Field]bool
	plan   plan

	// The fields below are valid within one span of NVML.
	span   *nvml.Span
	device nvml.Device
	static Values
	readAt time.Time
	// known has the first field of each getter of static values that was read.
	known     map[Field]bool
	texts     map[Field]string
	absent    map[Field]string
	deniedAt  time.Time
	instances map[uint32]*instance
	// divided is the MIG mode. seen is the field Seen of the last Task.
	divided bool
	seen    time.Time
	peers   map[gpu.UUID]uint32
	// alone is set if the links to some other GPUs could not be read.
	alone bool
	// gpm says whether the GPU has GPM. It is valid if asked is set.
	gpm, asked bool
	whole      gauge

	// counters outlive a span, because a driver that was loaded again counts from zero.
	counters  map[Field]*counter
	processes processes
	rates     map[Field]*rate
}

// instance is a GPU instance. device is the first MIG device in it, or invalid if it has none.
type instance struct {
	index int
	// shifted says that NVML lists the device at another index (gpu.MIGDevice).
	shifted bool
	uuid    gpu.UUID
	device  nvml.Device
	gauge   gauge
}

// New returns a Sampler. It does not use NVML.
func New(cfg Config) *Sampler {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	s := &Sampler{cfg: cfg, wanted: map[Field]bool{}, counters: map[Field]*counter{}, rates: map[Field]*rate{}}
	for _, f := range cfg.Fields {
		s.wanted[f] = true
	}
	s.plan = newPlan(s.wanted)
	return s
}

// plan lists the calls of a reading.
type plan struct {
	getters []getter
	// memory is set if one of the memory fields is wanted.
	memory bool
	values []fieldSource
	// rates are the wanted rates of NVLinks. They are derived from values.
	rates []linkRate
	units []unit
	texts []textSource
}

// newPlan returns the calls for the wanted fields.
func newPlan(wanted map[Field]bool) plan {
	is := func(f Field) bool { return wanted[f] }
	p := plan{getters: getters(), values: fieldValues(), units: units(), texts: texts()}
	p.getters = slices.DeleteFunc(p.getters, func(g getter) bool { return !slices.ContainsFunc(g.fields, is) })
	p.memory = slices.ContainsFunc(memoryFields(), is)
	counted := map[Field]bool{}
	for _, l := range linkRates() {
		if is(l.megabytes) || is(l.bytes) {
			p.rates = append(p.rates, l)
			counted[l.tx], counted[l.rx] = true, true
		}
	}
	p.values = slices.DeleteFunc(p.values, func(n fieldSource) bool { return !is(n.field) && !counted[n.field] })
	p.units = slices.DeleteFunc(p.units, func(u unit) bool { return !is(u.field) })
	p.texts = slices.DeleteFunc(p.texts, func(t textSource) bool { return !is(t.field) })
	return p
}

// Task describes one reading of a Sampler.
type Task struct {
	// GPU is the GPU with its current GPU instances.
	GPU gpu.GPU
	// Seen is the time at which the driver last reported the state in the field GPU. Older handles of
	// MIG devices are not used any more, because another MIG device with the same UUID may have been
	// created.
	Seen time.Time
	// Processes says that the processes on the GPU are wanted.
	Processes bool
}

// Sample reads a GPU. A value that cannot be read is absent from the result. The error means that
// no value of the GPU can be read.
func (s *Sampler) Sample(ctx context.Context, t Task) (Sample, error) {
	return nvml.Use(ctx, s.cfg.Session, func(ctx context.Context, span *nvml.Span) (Sample, error) {
		started := s.cfg.Now()
		if err := s.attach(span); err != nil {
			return Sample{}, err
		}
		s.divide(t)
		r := &reading{sampler: s, span: span, ctx: ctx, sample: Sample{At: started, GPU: Values{}, Failed: map[string]int{}}}
		if err := r.read(); err != nil {
			return Sample{}, err
		}
		if t.Processes {
			if err := r.processes(); err != nil {
				return Sample{}, err
			}
		}
		r.sample.Absent = maps.Clone(s.absent)
		r.sample.Took = s.cfg.Now().Sub(started)
		return r.sample, nil
	})
}

// attach finds the GPU in a new span, and forgets the values of the old span.
func (s *Sampler) attach(span *nvml.Span) error {
	if s.span == span {
		return nil
	}
	library := span.Library()
	count, err := library.DeviceCount()
	if err != nil {
		return err
	}
	var lost error
	for i := range count {
		d, err := library.Device(i)
		if err != nil {
			lost = err
			continue
		}
		id, err := d.UUID()
		if err != nil {
			lost = err
		}
		if gpu.UUID(id) == s.cfg.GPU {
			s.span, s.device = span, d
			s.forget()
			s.gpm, s.asked = false, false
			return nil
		}
	}
	if lost != nil {
		return lost
	}
	return fmt.Errorf("NVML does not list GPU %s", s.cfg.GPU)
}

// forget forgets the values that are valid only within one span, or until the GPU is divided again.
func (s *Sampler) forget() {
	s.static, s.texts, s.absent, s.peers = nil, nil, map[Field]string{}, nil
	s.instances, s.whole = map[uint32]*instance{}, gauge{}
}

// retry forgets, once in each deniedPeriod, which values the driver denied, and the links to other
// GPUs if some of them could not be read.
func (s *Sampler) retry(now time.Time) {
	if now.Sub(s.deniedAt) < deniedPeriod {
		return
	}
	s.deniedAt = now
	maps.DeleteFunc(s.absent, func(_ Field, reason string) bool { return reason == denied })
	if s.alone {
		s.peers = nil
	}
}

// divide finds the GPU instances of the GPU.
func (s *Sampler) divide(t Task) {
	found := map[uint32]instance{}
	divided := t.GPU.MIG != nil && t.GPU.MIG.Enabled
	if divided {
		for _, i := range t.GPU.MIG.GPUInstances {
			found[i.ID] = instance{}
		}
		for _, d := range slices.Backward(t.GPU.MIG.Devices) {
			if d.Fault == nil && d.GPUInstance != gpu.NoInstance {
				found[d.GPUInstance] = instance{index: d.Index, shifted: d.Shifted, uuid: d.UUID}
			}
		}
	}
	same := divided == s.divided && len(found) == len(s.instances)
	for id := range found {
		same = same && s.instances[id] != nil
	}
	if !same {
		// The supported values depend on the mode of the GPU.
		for _, i := range s.instances {
			i.gauge.free()
		}
		s.whole.free()
		s.forget()
	}
	known := s.seen.Equal(t.Seen)
	if !known {
		s.peers = nil
	}
	s.divided, s.seen = divided, t.Seen
	for id, now := range found {
		i := s.instances[id]
		if i == nil {
			i = &instance{}
			s.instances[id] = i
		}
		if known && i.device.Valid() && i.uuid == now.uuid && i.index == now.index && i.shifted == now.shifted {
			continue
		}
		i.index, i.shifted, i.uuid = now.index, now.shifted, now.uuid
		i.find(s.device)
	}
}

// find gets the handle of the MIG device. Without a handle, the values of the device are absent.
func (i *instance) find(parent nvml.Device) {
	i.device = nvml.Device{}
	switch {
	case i.uuid == "":
		return
	case !i.shifted:
		i.device, _ = parent.MIGDevice(i.index) // as documented
		return
	}
	// NVML lists the device at another index than the index of the node.
	count, _ := parent.MaxMIGDevices()
	for at := range count {
		d, err := parent.MIGDevice(at)
		if err != nil {
			continue // no device has this index
		}
		if id, err := d.UUID(); err == nil && id == string(i.uuid) {
			i.device = d
			return
		}
	}
}

// wants reports whether one of the fields is wanted and not known to be absent.
func (s *Sampler) wants(fields ...Field) bool {
	return slices.ContainsFunc(fields, func(f Field) bool {
		_, absent := s.absent[f]
		return s.wanted[f] && !absent
	})
}
