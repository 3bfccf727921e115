package exposition

import (
	"cmp"
	"maps"
	"math"
	"slices"

	dto "github.com/prometheus/client_model/go"

	"outrigger.dev/agents/dcgm-exporter/internal/counters"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/nvml/telemetry"
	"outrigger.dev/pkg/podresources"
)

// Derive returns the metrics of a node, ordered by name.
func Derive(s State, o Options) []*dto.MetricFamily {
	o.Metrics = named(o.Metrics, o.Names)
	d := &deriver{Options: o, state: s, families: map[string]*dto.MetricFamily{}, uses: map[place][]Account{}}
	for _, a := range s.Accounts {
		at := place{a.GPU, a.Instance}
		d.uses[at] = append(d.uses[at], a)
	}
	for i := range s.GPUs {
		if g := &s.GPUs[i]; o.Devices.gpu(g) {
			d.gpu(g)
		}
	}
	out := slices.Collect(maps.Values(d.families))
	slices.SortFunc(out, func(a, b *dto.MetricFamily) int { return cmp.Compare(a.GetName(), b.GetName()) })
	return out
}

// Wanted returns the fields whose values Derive serves.
func (o Options) Wanted() []telemetry.Field {
	out := ownFields()
	for _, m := range named(o.Metrics, o.Names) {
		switch m.Computed {
		case "":
			out = append(out, m.Field.ValueFrom)
		case counters.HealthStatus:
			out = slices.AppendSeq(out, maps.Values(MemoryFields()))
		case counters.P2PStatus:
			out = append(out, telemetry.PeerStatus)
		case counters.XIDCount, counters.XIDTotal, counters.ClockCount, counters.ClockTotal:
			// ownFields returns the fields for these counters
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// ownFields returns the fields that the exporter's own metrics need: for accounts, for counts of
// clock events, and for totals.
func ownFields() []telemetry.Field {
	out := []telemetry.Field{
		telemetry.DCGM_FI_DEV_FB_USED, telemetry.DCGM_FI_DEV_GPU_UTIL, telemetry.DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO,
		telemetry.DCGM_FI_DEV_CLOCKS_EVENT_REASONS,
	}
	for _, t := range totals() {
		out = append(out, t.field)
	}
	return out
}

type deriver struct {
	Options
	state    State
	families map[string]*dto.MetricFamily
	uses     map[place][]Account
}

// place is a GPU, or a GPU instance.
type place struct {
	gpu      gpu.UUID
	instance uint32
}

// put adds a metric to the family with this name. It creates the family if it is missing.
func (d *deriver) put(name, help string, counter bool, l labels, value float64) {
	f := d.families[name]
	if f == nil {
		kind := dto.MetricType_GAUGE
		if counter {
			kind = dto.MetricType_COUNTER
		}
		f = &dto.MetricFamily{Name: &name, Help: &help, Type: &kind}
		d.families[name] = f
	}
	m := &dto.Metric{Label: l}
	if f.GetType() == dto.MetricType_COUNTER {
		m.Counter = &dto.Counter{Value: &value}
	} else {
		m.Gauge = &dto.Gauge{Value: &value}
	}
	f.Metric = append(f.Metric, m)
}

// view is an entity with the label sets of its metrics.
type view struct {
	entity
	sets []labels
	// copies has the containers that share the entity, by the index of their label set.
	copies map[int]podresources.User
}

// gpu adds the metrics of a GPU.
func (d *deriver) gpu(g *GPU) {
	whole, instances := d.entities(g)
	top := d.view(whole)
	d.health(g, top, instances)
	d.status(g, top)
	d.errors(g, whole.labels)
	if g.Sample == nil {
		return
	}
	var parts []view
	for _, e := range instances {
		if d.Devices.instance(e.instance) {
			parts = append(parts, d.view(e))
		}
	}
	d.totals(g, whole.labels)
	d.accounts(whole)
	for _, e := range instances {
		d.accounts(e)
	}
	for _, m := range d.Metrics {
		switch {
		case m.Type == counters.Label:
		case m.Computed != "":
			d.computed(m, g, top)
			if m.Computed == counters.XIDCount {
				d.recent(m, g, top, parts)
			}
		case m.Field.ID == telemetry.DCGM_FI_DEV_XID_ERROR:
			// The function health adds this metric.
		default:
			d.metric(m, g, top, parts)
		}
	}
}

// metric adds a metric of the list for a GPU, and for each of its GPU instances. It does not repeat
// values of links with each GPU instance, because sums over them would count the traffic several times.
func (d *deriver) metric(m counters.Metric, g *GPU, top view, parts []view) {
	shared, has := g.Sample.GPU[m.Field.ValueFrom]
	alone := d.Devices.alone(g, len(parts))
	once := d.Dedupe || m.Field.Link
	for _, p := range parts {
		v, ok := g.Sample.Instances[p.instance][m.Field.ValueFrom]
		switch {
		case ok:
			d.value(m, p, v)
		case has && !once && !alone && !m.Field.Instance:
			d.value(m, p, shared)
		}
	}
	if has && (alone || len(parts) > 0 && once) {
		d.value(m, top, shared)
	}
}

// value adds the value of a metric of the list.
func (d *deriver) value(m counters.Metric, v view, value float64) {
	for i, set := range v.sets {
		value := value
		if u, ok := v.copies[i]; ok {
			value = d.share(m, v.entity, u, value)
		}
		d.put(m.Name, m.Help, m.Type == counters.Counter, set, value*m.Field.Scale)
	}
}

// share returns the part of a value that belongs to one container of a shared device. It returns
// the whole value if the value cannot be divided, or if the container's processes are unknown.
func (d *deriver) share(m counters.Metric, e entity, u podresources.User, value float64) float64 {
	for _, a := range d.uses[place{e.gpu.UUID, e.instance}] {
		if a.User.Namespace != u.Namespace || a.User.Pod != u.Pod || a.User.Container != u.Container {
			continue
		}
		switch {
		case m.Field.ValueFrom == telemetry.DCGM_FI_DEV_FB_USED && a.Memory >= 0:
			return math.Floor(a.Memory / (1 << 20))
		case m.Field.ValueFrom == telemetry.DCGM_FI_DEV_FB_USED_BYTES && a.Memory >= 0:
			return a.Memory
		case m.Field.ValueFrom == telemetry.DCGM_FI_DEV_GPU_UTIL && a.Busy >= 0:
			return math.Round(100 * a.Busy)
		}
	}
	return value
}
