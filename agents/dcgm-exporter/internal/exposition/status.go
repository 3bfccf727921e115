package exposition

import (
	"maps"
	"slices"
	"strconv"

	"outrigger.dev/agents/dcgm-exporter/internal/counters"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/nvml/telemetry"
	"outrigger.dev/pkg/health"
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

// MemoryFields returns the field of each memory fault. A value above 0 is a fault.
func MemoryFields() map[gpu.MemoryFault]telemetry.Field {
	return map[gpu.MemoryFault]telemetry.Field{
		gpu.RowRemapFailed:        telemetry.DCGM_FI_DEV_ROW_REMAP_FAILED,
		gpu.UncorrectedECC:        telemetry.DCGM_FI_DEV_ECC_DBE_VOL_TOTAL,
		gpu.RowRemapPending:       telemetry.DCGM_FI_DEV_ROW_REMAP_PENDING,
		gpu.PageRetirementPending: telemetry.DCGM_FI_DEV_PAGE_RETIRED_PENDING,
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

// watched returns the parts of a GPU whose state is known, each with an incident that stands for no
// problem.
func watched(g *GPU) map[string]incident {
	out := map[string]incident{}
	pass := func(watch string) { out[watch] = incident{watch, levelPass, "DCGM_FR_OK"} }
	if g.Sample == nil {
		return out
	}
	pass("DRIVER")
	for _, f := range MemoryFields() {
		if _, ok := g.Sample.GPU[f]; ok {
			pass("MEM")
		}
	}
	if _, ok := g.Sample.GPU[telemetry.DCGM_FI_DEV_CLOCKS_EVENT_REASONS]; ok {
		pass("THERMAL")
		pass("POWER")
	}
	return out
}

// incidents returns the incidents of a GPU: the faults of pkg/health, readings that fail, and warnings
// of clocks, which only this agent reads.
func incidents(g *GPU) []incident {
	var out []incident
	add := func(is bool, watch string, level float64, code string) {
		if is {
			out = append(out, incident{watch, level, code})
		}
	}
	add(!g.Up, "DRIVER", levelFail, lostCode(g))
	for _, f := range g.Findings {
		level := float64(levelWarn)
		if f.Severity == health.Failure {
			level = levelFail
		}
		watch, code := incidentOf(f, g)
		add(true, watch, level, code)
	}
	for _, c := range g.Clocks {
		add(c.Recent > 0 && (c.Reason == "sw_thermal" || c.Reason == "hw_thermal"), "THERMAL", levelWarn, "DCGM_FR_CLOCK_THROTTLE_THERMAL")
		add(c.Recent > 0 && c.Reason == "hw_power_brake", "POWER", levelWarn, "DCGM_FR_CLOCK_THROTTLE_POWER")
	}
	return out
}

// lostCode returns the code of a GPU that does not answer.
func lostCode(g *GPU) string {
	if g.LastXID == xidFallenOff {
		return "DCGM_FR_FALLEN_OFF_BUS"
	}
	return "DCGM_FR_NVML_API"
}

// incidentOf returns the part of a GPU that a fault concerns, and the code of the incident.
func incidentOf(f health.Finding, g *GPU) (watch, code string) {
	switch f.Class {
	case health.RowRemapFailed:
		return "MEM", "DCGM_FR_ROW_REMAP_FAILURE"
	case health.UncorrectedECC:
		return "MEM", "DCGM_FR_VOLATILE_DBE_DETECTED"
	case health.RowRemapPending:
		return "MEM", "DCGM_FR_PENDING_ROW_REMAP"
	case health.PageRetirementPending:
		return "MEM", "DCGM_FR_PENDING_PAGE_RETIREMENTS"
	case health.FabricFailed, health.FabricJoining:
		return "NVLINK", "DCGM_FR_FABRIC_PROBE_STATE"
	case health.RecoveryReset:
		return "DRIVER", "DCGM_FR_GPU_RECOVERY_RESET"
	case health.RecoveryReboot:
		return "DRIVER", "DCGM_FR_GPU_RECOVERY_REBOOT"
	case health.RecoveryDrainP2P:
		return "DRIVER", "DCGM_FR_GPU_RECOVERY_DRAIN_P2P"
	case health.RecoveryDrainAndReset:
		return "DRIVER", "DCGM_FR_GPU_RECOVERY_DRAIN_RESET"
	case health.RecoveryIMEXDomain:
		return "DRIVER", "DCGM_FR_GPU_RECOVERY_IMEX_DOMAIN"
	case health.Lost, health.Unreadable:
		return "DRIVER", lostCode(g)
	default:
		return incidentOfXID(f.XID)
	}
}

// incidentOfXID returns the part of a GPU that an XID concerns, and the code of the incident.
func incidentOfXID(xid uint64) (watch, code string) {
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
	default:
		return "DRIVER", "DCGM_FR_XID_ERROR"
	}
}

// peers adds how a GPU reaches the other GPUs of the state over NVLink.
func (d *deriver) peers(m counters.Metric, g *GPU, set labels) {
	for _, peer := range d.state.GPUs {
		status, known := g.Sample.Peers[peer.UUID]
		if !known {
			continue
		}
		more := []Label{{"peer_gpu", strconv.Itoa(peer.Index)}, {"link_status", linkStatus(status)}}
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
