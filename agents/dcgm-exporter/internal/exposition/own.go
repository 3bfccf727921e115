package exposition

import (
	"cmp"
	"maps"
	"slices"
	"strconv"

	"outrigger.dev/agents/dcgm-exporter/internal/counters"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/nvml/telemetry"
)

// health adds the metrics that are known even if the GPU does not answer.
func (d *deriver) health(g *GPU, top view, instances []entity) {
	up := 0.0
	if g.Up {
		up = 1
	}
	d.put("gpu_up", "1 while the GPU answers, 0 while it is lost, hangs or cannot be read.", false, top.labels, up)
	for _, m := range d.Metrics {
		if m.Computed != "" || m.Field.ID != telemetry.DCGM_FI_DEV_XID_ERROR {
			continue
		}
		code := strconv.FormatUint(g.LastXID, 10)
		for _, set := range top.sets {
			d.value(m, view{entity: top.entity, sets: []labels{set.with(Label{"err_code", code}, Label{"err_msg", meaning(g.LastXID)})}}, float64(g.LastXID))
		}
	}
	for _, x := range xidTotals(g.XIDs) {
		l := top.labels.with(Label{"xid", strconv.FormatUint(x.Code, 10)}, Label{"class", string(ClassOf(x.Code))})
		d.put("gpu_xid_errors_total", "Errors that the driver has reported since the exporter was started.", true, l, float64(x.Total))
	}
	for _, x := range g.XIDs {
		if x.Instance != gpu.NoInstance {
			l := d.instanceLabels(top, instances, x.Instance).with(Label{"xid", strconv.FormatUint(x.Code, 10)}, Label{"class", string(ClassOf(x.Code))})
			d.put("gpu_instance_xid_errors_total", "Errors of gpu_xid_errors_total that the driver has reported for a GPU instance.", true, l, float64(x.Total))
		}
	}
	if !g.LastXIDAt.IsZero() {
		d.put("gpu_xid_last_timestamp_seconds", "Time of the last error that the driver reported.", false, top.labels,
			float64(g.LastXIDAt.UnixMilli())/1000)
	}
}

// instanceLabels returns the labels of a GPU instance, even if the instance no longer exists, with the
// names of the container or pod that has it exclusively.
func (d *deriver) instanceLabels(whole view, instances []entity, id uint32) labels {
	for _, e := range instances {
		if e.instance != id {
			continue
		}
		if owner, alone := soleUser(e.users); alone {
			return e.labels.with(d.names(owner)...)
		}
		return e.labels
	}
	return d.identity(entity{gpu: whole.gpu, instance: id})
}

// xidTotals returns the sum over all instances for each code. It includes all known codes, with
// 0 if they were not reported.
func xidTotals(xids []XID) []XID {
	sums := map[uint64]XID{}
	for _, code := range KnownXIDs() {
		sums[code] = XID{Code: code}
	}
	for _, x := range xids {
		sum := sums[x.Code]
		sums[x.Code] = XID{Code: x.Code, Total: sum.Total + x.Total, Recent: sum.Recent + x.Recent}
	}
	out := slices.Collect(maps.Values(sums))
	slices.SortFunc(out, func(a, b XID) int { return cmp.Compare(a.Code, b.Code) })
	return out
}

// errors adds metrics about calls that failed, missing fields, and the duration of the reading.
func (d *deriver) errors(g *GPU, l labels) {
	for _, symbol := range slices.Sorted(maps.Keys(g.Errors)) {
		d.put("exporter_sample_errors_total", "Calls of NVML that failed, by symbol.", true, l.with(Label{"symbol", symbol}), float64(g.Errors[symbol]))
	}
	if g.Sample == nil {
		return
	}
	for _, m := range d.Metrics {
		if reason, ok := g.Sample.Absent[m.Field.ValueFrom]; ok && m.Computed == "" {
			d.put("exporter_field_unavailable", "Always 1: a metric of the list that this GPU does not have, and why.", false,
				l.with(Label{"field", m.Name}, Label{"reason", reason}), 1)
		}
	}
	d.put("exporter_sample_duration_seconds", "How long the last reading of the GPU took.", false, l, g.Sample.Took.Seconds())
}

// total is one of the exporter's own metrics: the value of a field in a base unit.
type total struct {
	field      telemetry.Field
	name, help string
	// label is the name of the metric's label, or "" for no label, and labelValue is its value.
	label, labelValue string
	scale             float64
	isGauge           bool
}

// totals returns all totals. To add one, add a row.
func totals() []total {
	return []total{
		{telemetry.DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION, "gpu_energy_joules_total", "Energy that the GPU has used since the driver was loaded.", "", "", 1e-3, false},
		{telemetry.PCIeTxBytes, "gpu_pcie_bytes_total", pcieHelp, "direction", "tx", 1, false},
		{telemetry.PCIeRxBytes, "gpu_pcie_bytes_total", pcieHelp, "direction", "rx", 1, false},
		{telemetry.NVLinkTxBytes, "gpu_nvlink_bytes_total", nvlinkHelp, "direction", "tx", 1, false},
		{telemetry.NVLinkRxBytes, "gpu_nvlink_bytes_total", nvlinkHelp, "direction", "rx", 1, false},
		{telemetry.ThrottledPowerCap, "gpu_throttle_seconds_total", throttleHelp, "reason", "sw_power_cap", 1e-9, false},
		{telemetry.ThrottledSyncBoost, "gpu_throttle_seconds_total", throttleHelp, "reason", "sync_boost", 1e-9, false},
		{telemetry.ThrottledSWThermal, "gpu_throttle_seconds_total", throttleHelp, "reason", "sw_thermal", 1e-9, false},
		{telemetry.ThrottledHWThermal, "gpu_throttle_seconds_total", throttleHelp, "reason", "hw_thermal", 1e-9, false},
		{telemetry.ThrottledPowerBrake, "gpu_throttle_seconds_total", throttleHelp, "reason", "hw_power_brake", 1e-9, false},
		{telemetry.DCGM_FI_DEV_GPU_RECOVERY_ACTION, "gpu_recovery_action", "What the GPU needs to be healthy: 0 nothing, 1 reset, 2 reboot, 3 drain of peer-to-peer traffic, 4 drain and reset.", "", "", 1, true},
	}
}

// totals adds the totals whose fields the GPU has.
func (d *deriver) totals(g *GPU, l labels) {
	for _, t := range totals() {
		value, ok := g.Sample.GPU[t.field]
		if !ok {
			continue
		}
		set := l
		if t.label != "" {
			set = l.with(Label{t.label, t.labelValue})
		}
		d.put(t.name, t.help, !t.isGauge, set, value*t.scale)
	}
}

const (
	pcieHelp     = "Bytes that the GPU has sent (tx) and received (rx) over PCIe."
	nvlinkHelp   = "Bytes of data that the GPU has sent (tx) and received (rx) over its NVLinks."
	throttleHelp = "Time in which the clocks of the GPU were held down, by reason."
)

// accounts adds the use of a device by containers.
func (d *deriver) accounts(e entity) {
	for _, a := range d.uses[place{e.gpu.UUID, e.instance}] {
		l := e.labels.with(d.names(a.User)...)
		d.put("gpu_pod_allocated_seconds_total", "Time for which a container has had a GPU, or a part of it.", true, l, a.Allocated)
		if a.Known {
			d.put("gpu_pod_idle_seconds_total", "Time for which a container has had a GPU, or a part of it, and did nothing there.", true, l, a.Idle)
			d.put("gpu_pod_sm_seconds_total", "Time for which a container has kept the multiprocessors of its GPU busy.", true, l, a.SM)
		}
		if a.Metered {
			d.put("gpu_pod_energy_joules_total", "Energy that the GPU has used for a container.", true, l, a.Joules)
		}
		if a.Memory >= 0 {
			d.put("gpu_pod_memory_bytes", "GPU memory that a container uses.", false, l, a.Memory)
		}
	}
}

// computed adds a metric that the exporter computes.
func (d *deriver) computed(m counters.Metric, g *GPU, top view) {
	counter := m.Type == counters.Counter
	window := func(w int64) Label { return Label{"window_size_in_ms", strconv.FormatInt(w, 10)} }
	for _, set := range top.sets {
		switch m.Computed {
		case counters.XIDCount:
			if len(g.XIDs) == 0 {
				d.put(m.Name, m.Help, counter, set.with(window(d.XIDWindow.Milliseconds())), 0)
			}
			// The function recent adds the reported codes, with the labels of the instance.
		case counters.XIDTotal:
			for _, x := range xidTotals(g.XIDs) {
				d.put(m.Name, m.Help, counter, set.with(Label{"xid", strconv.FormatUint(x.Code, 10)}), float64(x.Total))
			}
		case counters.ClockCount:
			for _, c := range g.Clocks {
				d.put(m.Name, m.Help, counter, set.with(window(d.ClockWindow.Milliseconds()), Label{"clock_event", c.Reason}), float64(c.Recent))
			}
		case counters.HealthStatus:
			// The function status adds this metric, even if the GPU does not answer.
		case counters.P2PStatus:
			d.peers(m, g, set)
		case counters.ClockTotal:
			for _, c := range g.Clocks {
				d.put(m.Name, m.Help, counter, set.with(Label{"clock_event", c.Reason}), float64(c.Total))
			}
		}
	}
}

// recent adds the errors within the window. Each has the labels of its GPU or GPU instance.
func (d *deriver) recent(m counters.Metric, g *GPU, top view, parts []view) {
	for _, x := range g.XIDs {
		sets := top.sets
		if x.Instance != gpu.NoInstance {
			sets = []labels{d.instanceLabels(top, nil, x.Instance)}
		}
		for _, p := range parts {
			if p.instance == x.Instance {
				sets = p.sets
			}
		}
		more := []Label{{"window_size_in_ms", strconv.FormatInt(d.XIDWindow.Milliseconds(), 10)}, {"xid", strconv.FormatUint(x.Code, 10)}}
		for _, set := range sets {
			d.put(m.Name, m.Help, m.Type == counters.Counter, set.with(more...), float64(x.Recent))
		}
	}
}
