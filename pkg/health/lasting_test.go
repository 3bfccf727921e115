package health_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"outrigger.dev/pkg/cause"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/health"
)

func memory(faults ...gpu.MemoryFault) func(*gpu.Node) {
	return func(n *gpu.Node) { n.GPUs[0].MemoryFaults = faults }
}

func fabric(f gpu.Fabric) func(*gpu.Node) { return func(n *gpu.Node) { n.GPUs[0].Fabric = &f } }

// The lasting state decides by one snapshot, so a Machine that has just started says the same as a Machine that
// has seen all events.
func TestLastingState(t *testing.T) {
	const failed, ecc = "a row of memory could not be remapped: replace the GPU", "the memory has had an uncorrectable error: reset the GPU"
	const pending, pages = "a row of memory waits to be remapped: let programs end, then reset the GPU", "a page of memory waits to be retired: let programs end, then reset the GPU"
	for name, tc := range map[string]struct {
		change   func(*gpu.Node)
		disable  string
		set      map[health.Class]health.Severity
		want     health.Status
		findings []health.Class
	}{
		"rows that could not be remapped": {
			change: memory(gpu.RowRemapFailed), want: health.Status{Kind: cause.DeviceMemory, Reason: failed}, findings: []health.Class{health.RowRemapFailed},
		},
		"rows that wait": {
			change: memory(gpu.RowRemapPending), want: health.Status{Kind: cause.DeviceMemory, Reason: pending}, findings: []health.Class{health.RowRemapPending},
		},
		"pages that wait": {
			change: memory(gpu.PageRetirementPending), want: health.Status{Kind: cause.DeviceMemory, Reason: pages},
			findings: []health.Class{health.PageRetirementPending},
		},
		"several faults of the memory": {
			change: memory(gpu.RowRemapFailed, gpu.UncorrectedECC), want: health.Status{Kind: cause.DeviceMemory, Reason: failed + "; " + ecc},
			findings: []health.Class{health.RowRemapFailed, health.UncorrectedECC},
		},
		"a fabric that was not joined": {
			change:   fabric(gpu.Fabric{State: gpu.FabricCompleted, Status: "Unknown Error"}),
			want:     health.Status{Kind: cause.DeviceFabric, Reason: "the GPU could not join its NVLink fabric (Unknown Error): see the log of the fabric manager, then reset the GPU"},
			findings: []health.Class{health.FabricFailed},
		},
		"a fabric that is being joined": {
			change: fabric(gpu.Fabric{State: gpu.FabricInProgress}), want: health.Status{Healthy: true}, findings: []health.Class{health.FabricJoining},
		},
		"a fabric as it should be": {
			change: fabric(gpu.Fabric{State: gpu.FabricCompleted, Status: gpu.FabricSuccess}), want: health.Status{Healthy: true},
		},
		"an IMEX domain to recover": {
			change: asks(gpu.RecoveryIMEXDomain), want: health.Status{Healthy: true}, findings: []health.Class{health.RecoveryIMEXDomain},
		},
		"a fault that the rules make a warning": {
			change: memory(gpu.RowRemapPending), set: map[health.Class]health.Severity{health.RowRemapPending: health.Warning},
			want: health.Status{Healthy: true}, findings: []health.Class{health.RowRemapPending},
		},
		"a fault that the rules ignore": {
			change: memory(gpu.RowRemapFailed), set: map[health.Class]health.Severity{health.RowRemapFailed: health.Ignored}, want: health.Status{Healthy: true},
		},
		"a recovery that the rules make a warning": {
			change: asks(gpu.RecoveryDrainP2P), set: map[health.Class]health.Severity{health.RecoveryDrainP2P: health.Warning},
			want: health.Status{Healthy: true}, findings: []health.Class{health.RecoveryDrainP2P},
		},
		"all checks are disabled": {change: memory(gpu.RowRemapFailed), disable: "all", want: health.Status{Healthy: true}},
		"all checks are disabled, one class is set": {
			change: memory(gpu.RowRemapFailed, gpu.UncorrectedECC), disable: "all", set: map[health.Class]health.Severity{health.UncorrectedECC: health.Failure},
			want: health.Status{Kind: cause.DeviceMemory, Reason: ecc}, findings: []health.Class{health.UncorrectedECC},
		},
	} {
		t.Run(name, func(t *testing.T) {
			rules, _ := health.ParseRules(tc.disable, "")
			rules = rules.With(tc.set)
			for machine, m := range map[string]*health.Machine{
				"a new machine": run(rules, script{{0, observe(tc.change)}}),
				"an old one":    run(rules, script{{0, observe()}, {1, observe(tc.change)}, {20, observe(tc.change)}}),
			} {
				if diff := cmp.Diff(tc.want, m.View().Of("GPU-0")); diff != "" {
					t.Errorf("%s: status (-want +got):\n%s", machine, diff)
				}
				var classes []health.Class
				for _, f := range m.View().Findings["GPU-0"] {
					classes = append(classes, f.Class)
				}
				if diff := cmp.Diff(tc.findings, classes); diff != "" {
					t.Errorf("%s: findings (-want +got):\n%s", machine, diff)
				}
				m.Observe(node(), minute(21))
				if s := m.View().Of("GPU-0"); !s.Healthy {
					t.Errorf("%s: the GPU is unhealthy after the fault: %s", machine, s.Reason)
				}
			}
		})
	}
}

// Events that can leave a fault of the memory cause a snapshot.
func TestMemoryXIDsNeedARefresh(t *testing.T) {
	for _, x := range []uint64{48, 63, 64, 92, 94, 95, 140} {
		if !health.NeedsRefresh(xid("GPU-0", x)) {
			t.Errorf("no snapshot is taken after xid %d", x)
		}
	}
}
