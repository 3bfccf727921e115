package exposition

import (
	"maps"
	"slices"
	"strconv"

	"outrigger.dev/agents/dcgm-exporter/internal/counters"
	"outrigger.dev/pkg/gpu/nvml/telemetry"
)

// The levels of health (dcgm_structs.h, dcgmHealthWatchResults_t).
const (
	levelPass = 0
	levelWarn = 10
	levelFail = 20
)

// xidFallenOff is the XID of a GPU that has fallen off the bus.
const xidFallenOff = 79

// incident is a problem with a part of a GPU, with the names of DCGM (dcgm_errors.h).
type incident struct {
	watch string
	level float64
	code  string
}

// memoryIncident is an incident of the memory. It is present if the value of the field is above 0.
type memoryIncident struct {
	field telemetry.Field
	level float64
	code  string
}

// memoryIncidents returns all memory incidents, the worst first. To add one, add a row.
func memoryIncidents() []memoryIncident {
	return []memoryIncident{
		{telemetry.DCGM_FI_DEV_ROW_REMAP_FAILED, levelFail, "DCGM_FR_ROW_REMAP_FAILURE"},
		{telemetry.DCGM_FI_DEV_ECC_DBE_VOL_TOTAL, levelFail, "DCGM_FR_VOLATILE_DBE_DETECTED"},
		{telemetry.DCGM_FI_DEV_ROW_REMAP_PENDING, levelWarn, "DCGM_FR_PENDING_ROW_REMAP"},
		{telemetry.DCGM_FI_DEV_PAGE_RETIRED_PENDING, levelWarn, "DCGM_FR_PENDING_PAGE_RETIREMENTS"},
	}
}

// status adds the health of a GPU: the worst incident of each part whose state is known.
func (d *deriver) status(g *GPU, top view) {
	for _, m := range d.Metrics {
		if m.Computed != counters.HealthStatus {
			continue
		}
		worst := watched(g)
		for _, i := range incidents(g) {
			if was, ok := worst[i.watch]; !ok || i.level > was.level {
				worst[i.watch] = i
			}
		}
		for _, watch := range slices.Sorted(maps.Keys(worst)) {
			more := []Label{{"health_watch", watch}, {"health_error_code", worst[watch].code}}
			for _, set := range top.sets {
				d.put(m.Name, m.Help, m.Type == counters.Counter, set.with(more...), worst[watch].level)
			}
		}
	}
}

// watched returns the parts of a GPU whose state is known, each without an incident.
func watched(g *GPU) map[string]incident {
	out := map[string]incident{}
	pass := func(watch string) { out[watch] = incident{watch, levelPass, "DCGM_FR_OK"} }
	if g.Sample == nil {
		return out
	}
	pass("DRIVER")
	for _, i := range memoryIncidents() {
		if _, ok := g.Sample.GPU[i.field]; ok {
			pass("MEM")
		}
	}
	if _, ok := g.Sample.GPU[telemetry.DCGM_FI_DEV_CLOCKS_EVENT_REASONS]; ok {
		pass("THERMAL")
		pass("POWER")
	}
	return out
}

// incidents returns the incidents of a GPU.
func incidents(g *GPU) []incident {
	var out []incident
	add := func(is bool, watch string, level float64, code string) {
		if is {
			out = append(out, incident{watch, level, code})
		}
	}
	add(!g.Up && g.LastXID == xidFallenOff, "DRIVER", levelFail, "DCGM_FR_FALLEN_OFF_BUS")
	add(!g.Up && g.LastXID != xidFallenOff, "DRIVER", levelFail, "DCGM_FR_NVML_API")
	for _, x := range g.XIDs {
		watch, code := incidentOf(x.Code)
		add(x.Recent > 0 && watch != "", watch, levelFail, code)
	}
	for _, c := range g.Clocks {
		add(c.Recent > 0 && (c.Reason == "sw_thermal" || c.Reason == "hw_thermal"), "THERMAL", levelWarn, "DCGM_FR_CLOCK_THROTTLE_THERMAL")
		add(c.Recent > 0 && c.Reason == "hw_power_brake", "POWER", levelWarn, "DCGM_FR_CLOCK_THROTTLE_POWER")
	}
	if g.Sample == nil {
		return out
	}
	v := g.Sample.GPU
	for _, i := range memoryIncidents() {
		add(v[i.field] > 0, "MEM", i.level, i.code)
	}
	switch v[telemetry.DCGM_FI_DEV_GPU_RECOVERY_ACTION] {
	case 1:
		add(true, "DRIVER", levelFail, "DCGM_FR_GPU_RECOVERY_RESET")
	case 2:
		add(true, "DRIVER", levelFail, "DCGM_FR_GPU_RECOVERY_REBOOT")
	case 3:
		add(true, "DRIVER", levelWarn, "DCGM_FR_GPU_RECOVERY_DRAIN_P2P")
	case 4:
		add(true, "DRIVER", levelFail, "DCGM_FR_GPU_RECOVERY_DRAIN_RESET")
	case 5:
		add(true, "DRIVER", levelFail, "DCGM_FR_GPU_RECOVERY_IMEX_DOMAIN")
	}
	return out
}

// incidentOf returns the part of a GPU that an error concerns, and the code of the incident. Both
// are "" for an error that does not show a problem of the GPU.
func incidentOf(xid uint64) (watch, code string) {
	switch xid {
	case 48:
		return "MEM", "DCGM_FR_VOLATILE_DBE_DETECTED"
	case 64:
		return "MEM", "DCGM_FR_ROW_REMAP_FAILURE"
	case 95:
		return "MEM", "DCGM_FR_UNCONTAINED_ERROR"
	case 74, 144, 145, 146, 147, 148, 149, 150, 155:
		return "NVLINK", "DCGM_FR_NVLINK_ERROR_CRITICAL"
	case xidFallenOff:
		return "DRIVER", "DCGM_FR_FALLEN_OFF_BUS"
	}
	if ClassOf(xid) == XIDCritical {
		return "DRIVER", "DCGM_FR_XID_ERROR"
	}
	return "", ""
}

// peers adds how a GPU reaches the other GPUs of its node over NVLink.
func (d *deriver) peers(m counters.Metric, g *GPU, set labels) {
	for _, peer := range slices.Sorted(maps.Keys(g.Sample.Peers)) {
		status := g.Sample.Peers[peer]
		more := []Label{{"peer_gpu", strconv.Itoa(peer)}, {"link_status", linkStatus(status)}}
		d.put(m.Name, m.Help, m.Type == counters.Counter, set.with(more...), float64(status))
	}
}

// linkStatus returns DCGM Exporter's name for a status (nvml.h, nvmlGpuP2PStatus_t).
func linkStatus(status uint32) string {
	names := []string{"OK", "ChipsetNotSupported", "GPUNotSupported", "TopologyNotSupported", "DisabledByRegKey", "NotSupported"}
	if int(status) < len(names) {
		return names[status]
	}
	return "Unknown"
}
