package exposition_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"outrigger.dev/agents/dcgm-exporter/internal/exposition"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/nvml/telemetry"
	"outrigger.dev/pkg/health"
)

func TestHealth(t *testing.T) {
	const dbe, pagesPending, remapFailure, remapPending telemetry.Field = 311, 392, 395, 396
	// fault is a fault that pkg/health finds in the state of the GPU.
	fault := func(change func(*gpu.GPU)) func(*exposition.GPU) {
		return func(g *exposition.GPU) {
			change(&g.GPU)
			g.Findings = health.Lasting(&g.GPU, health.Rules{})
		}
	}
	memory := func(faults ...gpu.MemoryFault) func(*exposition.GPU) {
		return fault(func(g *gpu.GPU) { g.MemoryFaults = faults })
	}
	recovery := func(r gpu.Recovery) func(*exposition.GPU) { return fault(func(g *gpu.GPU) { g.Recovery = r }) }
	fabric := func(f gpu.Fabric) func(*exposition.GPU) { return fault(func(g *gpu.GPU) { g.Fabric = &f }) }
	xid := func(code uint64) func(*exposition.GPU) {
		return func(g *exposition.GPU) {
			m := health.New(health.Rules{})
			m.Observe(&gpu.Node{GPUs: []gpu.GPU{g.GPU}}, began)
			m.Apply(gpu.Event{Kind: gpu.EventXID, GPU: g.UUID, XID: code, GPUInstance: gpu.NoInstance, ComputeInstance: gpu.NoInstance}, began)
			g.LastXID, g.Findings = code, m.View().Findings[g.UUID]
		}
	}
	clock := func(reason string) func(*exposition.GPU) {
		return func(g *exposition.GPU) { g.Clocks = []exposition.ClockEvent{{Reason: reason, Total: 1, Recent: 1}} }
	}
	lost := func(g *exposition.GPU) { g.Up, g.Sample = false, nil }
	for name, c := range map[string]struct {
		changes []func(*exposition.GPU)
		// want are the parts that do not pass, and unknown those of which nothing is known.
		want    map[string]string
		unknown []string
	}{
		"a GPU without an incident":             {},
		"an error in memory":                    {[]func(*exposition.GPU){memory(gpu.UncorrectedECC)}, map[string]string{"MEM": "20 DCGM_FR_VOLATILE_DBE_DETECTED"}, nil},
		"rows to be remapped":                   {[]func(*exposition.GPU){memory(gpu.RowRemapPending)}, map[string]string{"MEM": "20 DCGM_FR_PENDING_ROW_REMAP"}, nil},
		"pages to be retired":                   {[]func(*exposition.GPU){memory(gpu.PageRetirementPending)}, map[string]string{"MEM": "20 DCGM_FR_PENDING_PAGE_RETIREMENTS"}, nil},
		"the worst counts":                      {[]func(*exposition.GPU){memory(gpu.RowRemapFailed, gpu.RowRemapPending)}, map[string]string{"MEM": "20 DCGM_FR_ROW_REMAP_FAILURE"}, nil},
		"a recent XID":                          {[]func(*exposition.GPU){xid(95)}, map[string]string{"MEM": "20 DCGM_FR_UNCONTAINED_ERROR"}, nil},
		"an XID of a program":                   {[]func(*exposition.GPU){xid(31)}, nil, nil},
		"an XID of an NVLink":                   {[]func(*exposition.GPU){xid(74)}, map[string]string{"NVLINK": "20 DCGM_FR_NVLINK_ERROR_CRITICAL"}, nil},
		"another critical XID":                  {[]func(*exposition.GPU){xid(119)}, map[string]string{"DRIVER": "20 DCGM_FR_XID_ERROR"}, nil},
		"clocks held down by heat":              {[]func(*exposition.GPU){clock("hw_thermal")}, map[string]string{"THERMAL": "10 DCGM_FR_CLOCK_THROTTLE_THERMAL"}, nil},
		"clocks held down by a power brake":     {[]func(*exposition.GPU){clock("hw_power_brake")}, map[string]string{"POWER": "10 DCGM_FR_CLOCK_THROTTLE_POWER"}, nil},
		"clocks held down by the limit":         {[]func(*exposition.GPU){clock("power_cap")}, nil, nil},
		"a reset is needed":                     {[]func(*exposition.GPU){recovery(gpu.RecoveryReset)}, map[string]string{"DRIVER": "20 DCGM_FR_GPU_RECOVERY_RESET"}, nil},
		"peer-to-peer traffic has to end":       {[]func(*exposition.GPU){recovery(gpu.RecoveryDrainP2P)}, map[string]string{"DRIVER": "20 DCGM_FR_GPU_RECOVERY_DRAIN_P2P"}, nil},
		"a GPU that fell off the bus":           {[]func(*exposition.GPU){xid(79), lost}, map[string]string{"DRIVER": "20 DCGM_FR_FALLEN_OFF_BUS"}, []string{"MEM", "POWER", "THERMAL"}},
		"an XID for NVIDIA's support":           {[]func(*exposition.GPU){xid(61)}, map[string]string{"DRIVER": "20 DCGM_FR_XID_ERROR"}, nil},
		"an XID of a contained error":           {[]func(*exposition.GPU){xid(94)}, nil, nil},
		"an IMEX domain to recover":             {[]func(*exposition.GPU){recovery(gpu.RecoveryIMEXDomain)}, map[string]string{"DRIVER": "10 DCGM_FR_GPU_RECOVERY_IMEX_DOMAIN"}, nil},
		"a fabric that was not joined":          {[]func(*exposition.GPU){fabric(gpu.Fabric{State: gpu.FabricCompleted, Status: "x"})}, map[string]string{"NVLINK": "20 DCGM_FR_FABRIC_PROBE_STATE"}, nil},
		"a fabric that is being joined":         {[]func(*exposition.GPU){fabric(gpu.Fabric{State: gpu.FabricInProgress})}, map[string]string{"NVLINK": "10 DCGM_FR_FABRIC_PROBE_STATE"}, nil},
		"a GPU that does not answer":            {[]func(*exposition.GPU){lost}, map[string]string{"DRIVER": "20 DCGM_FR_NVML_API"}, []string{"MEM", "POWER", "THERMAL"}},
		"what NVML does not say does not pass":  {[]func(*exposition.GPU){without(telemetry.DCGM_FI_DEV_CLOCKS_EVENT_REASONS)}, nil, []string{"POWER", "THERMAL"}},
		"memory without ECC does not pass":      {[]func(*exposition.GPU){without(dbe, pagesPending, remapFailure, remapPending)}, nil, []string{"MEM"}},
		"an XID is known without the ECC state": {[]func(*exposition.GPU){without(dbe, pagesPending, remapFailure, remapPending), xid(48)}, map[string]string{"MEM": "20 DCGM_FR_VOLATILE_DBE_DETECTED"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s, o := state(), options(t)
			o.Metrics = list(t, "DCGM_EXP_GPU_HEALTH_STATUS, gauge, h\n")
			for _, f := range []telemetry.Field{dbe, pagesPending, remapFailure, remapPending, telemetry.DCGM_FI_DEV_CLOCKS_EVENT_REASONS} {
				s.GPUs[0].Sample.GPU[f] = 0
			}
			for _, change := range c.changes {
				change(&s.GPUs[0])
			}
			want := map[string]string{}
			for _, watch := range []string{"DRIVER", "MEM", "POWER", "THERMAL"} {
				if !slices.Contains(c.unknown, watch) {
					want[watch] = "0 DCGM_FR_OK"
				}
			}
			maps.Copy(want, c.want)
			if diff := cmp.Diff(want, served(s, o)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// without removes values.
func without(fields ...telemetry.Field) func(*exposition.GPU) {
	return func(g *exposition.GPU) {
		for _, f := range fields {
			delete(g.Sample.GPU, f)
		}
	}
}

// served returns what is served of the health of the first GPU, by its part.
func served(s exposition.State, o exposition.Options) map[string]string {
	got := map[string]string{}
	for _, f := range exposition.Derive(s, o) {
		if f.GetName() != "DCGM_EXP_GPU_HEALTH_STATUS" {
			continue
		}
		for _, m := range f.Metric {
			labels := map[string]string{}
			for _, l := range m.Label {
				labels[l.GetName()] = l.GetValue()
			}
			got[labels["health_watch"]] = fmt.Sprintf("%g %s", m.GetGauge().GetValue(), labels["health_error_code"])
		}
	}
	return got
}

// The values that health is derived from are read if the list asks for it.
func TestHealthIsWanted(t *testing.T) {
	o := exposition.Options{}
	before := o.Wanted()
	o.Metrics = list(t, "DCGM_EXP_GPU_HEALTH_STATUS, gauge, h\nDCGM_EXP_P2P_STATUS, gauge, p\n")
	after := o.Wanted()
	for _, f := range []telemetry.Field{311, 392, 395, 396, telemetry.PeerStatus} {
		if slices.Contains(before, f) || !slices.Contains(after, f) {
			t.Errorf("field %d: %v, %v", f, before, after)
		}
	}
}
