package exposition_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"outrigger.dev/agents/dcgm-exporter/internal/exposition"
	"outrigger.dev/pkg/gpu/nvml/telemetry"
)

func TestHealth(t *testing.T) {
	const dbe, pagesPending, remapFailure, remapPending telemetry.Field = 311, 392, 395, 396
	value := func(f telemetry.Field, v float64) func(*exposition.GPU) {
		return func(g *exposition.GPU) { g.Sample.GPU[f] = v }
	}
	xid := func(code, recent uint64) func(*exposition.GPU) {
		return func(g *exposition.GPU) {
			g.LastXID, g.XIDs = code, []exposition.XID{{Code: code, Total: 1, Recent: recent}}
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
		"an error in memory":                    {[]func(*exposition.GPU){value(dbe, 1)}, map[string]string{"MEM": "20 DCGM_FR_VOLATILE_DBE_DETECTED"}, nil},
		"rows to be remapped":                   {[]func(*exposition.GPU){value(remapPending, 1)}, map[string]string{"MEM": "10 DCGM_FR_PENDING_ROW_REMAP"}, nil},
		"pages to be retired":                   {[]func(*exposition.GPU){value(pagesPending, 1)}, map[string]string{"MEM": "10 DCGM_FR_PENDING_PAGE_RETIREMENTS"}, nil},
		"the worst counts":                      {[]func(*exposition.GPU){value(remapPending, 1), value(remapFailure, 1)}, map[string]string{"MEM": "20 DCGM_FR_ROW_REMAP_FAILURE"}, nil},
		"a recent XID":                          {[]func(*exposition.GPU){xid(95, 1)}, map[string]string{"MEM": "20 DCGM_FR_UNCONTAINED_ERROR"}, nil},
		"an XID of long ago":                    {[]func(*exposition.GPU){xid(95, 0)}, nil, nil},
		"an XID of a program":                   {[]func(*exposition.GPU){xid(31, 3)}, nil, nil},
		"an XID of an NVLink":                   {[]func(*exposition.GPU){xid(74, 1)}, map[string]string{"NVLINK": "20 DCGM_FR_NVLINK_ERROR_CRITICAL"}, nil},
		"another critical XID":                  {[]func(*exposition.GPU){xid(119, 1)}, map[string]string{"DRIVER": "20 DCGM_FR_XID_ERROR"}, nil},
		"clocks held down by heat":              {[]func(*exposition.GPU){clock("hw_thermal")}, map[string]string{"THERMAL": "10 DCGM_FR_CLOCK_THROTTLE_THERMAL"}, nil},
		"clocks held down by a power brake":     {[]func(*exposition.GPU){clock("hw_power_brake")}, map[string]string{"POWER": "10 DCGM_FR_CLOCK_THROTTLE_POWER"}, nil},
		"clocks held down by the limit":         {[]func(*exposition.GPU){clock("power_cap")}, nil, nil},
		"a reset is needed":                     {[]func(*exposition.GPU){value(telemetry.DCGM_FI_DEV_GPU_RECOVERY_ACTION, 1)}, map[string]string{"DRIVER": "20 DCGM_FR_GPU_RECOVERY_RESET"}, nil},
		"peer-to-peer traffic has to end":       {[]func(*exposition.GPU){value(telemetry.DCGM_FI_DEV_GPU_RECOVERY_ACTION, 3)}, map[string]string{"DRIVER": "10 DCGM_FR_GPU_RECOVERY_DRAIN_P2P"}, nil},
		"a GPU that fell off the bus":           {[]func(*exposition.GPU){xid(79, 0), lost}, map[string]string{"DRIVER": "20 DCGM_FR_FALLEN_OFF_BUS"}, []string{"MEM", "POWER", "THERMAL"}},
		"a GPU that does not answer":            {[]func(*exposition.GPU){lost}, map[string]string{"DRIVER": "20 DCGM_FR_NVML_API"}, []string{"MEM", "POWER", "THERMAL"}},
		"what NVML does not say does not pass":  {[]func(*exposition.GPU){without(telemetry.DCGM_FI_DEV_CLOCKS_EVENT_REASONS)}, nil, []string{"POWER", "THERMAL"}},
		"memory without ECC does not pass":      {[]func(*exposition.GPU){without(dbe, pagesPending, remapFailure, remapPending)}, nil, []string{"MEM"}},
		"an XID is known without the ECC state": {[]func(*exposition.GPU){without(dbe, pagesPending, remapFailure, remapPending), xid(48, 1)}, map[string]string{"MEM": "20 DCGM_FR_VOLATILE_DBE_DETECTED"}, nil},
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
			if diff := cmp.Diff(want, health(s, o)); diff != "" {
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

// health returns what is served of the health of the first GPU, by its part.
func health(s exposition.State, o exposition.Options) map[string]string {
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
