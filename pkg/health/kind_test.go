package health_test

import (
	"testing"

	"outrigger.dev/pkg/cause"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/health"
)

func TestKind(t *testing.T) {
	rules, _ := health.ParseRules("", "")
	mig := gpu.MIGDevice{GPUInstance: 1, ComputeInstance: 0}
	gone := observe(func(n *gpu.Node) { n.GPUs[1].MIG.Devices = n.GPUs[1].MIG.Devices[1:] })
	for name, tc := range map[string]struct {
		script script
		of     func(health.View) health.Status
		want   cause.Code
	}{
		"an XID":                     {script{{1, apply(xid("GPU-0", 61))}}, first, cause.DeviceXID},
		"a GPU that is lost":         {script{{1, apply(lost("GPU-0"))}}, first, cause.DeviceLost},
		"a GPU that left the node":   {script{{1, observe(func(n *gpu.Node) { n.GPUs = n.GPUs[1:] })}}, first, cause.DeviceLost},
		"a fault":                    {script{{1, observe(silent(0))}}, first, cause.DeviceFault},
		"a recovery action":          {script{{1, observe(asks(gpu.RecoveryReset))}}, first, cause.DeviceRecovery},
		"a driver that hangs":        {script{{1, hangs("stuck")}}, first, cause.DeviceHang},
		"a driver that is gone":      {script{{1, driverGone}}, first, cause.DeviceDriver},
		"a hang of a missing driver": {script{{1, driverGone}, {2, hangs("stuck")}}, first, cause.DeviceHang},
		"a fault after an XID":       {script{{1, apply(xid("GPU-0", 61))}, {2, observe(silent(0))}}, first, cause.DeviceFault},
		"a MIG device that is gone": {
			script{{1, gone}}, func(v health.View) health.Status { return v.OfMIG("GPU-1", mig) }, cause.DeviceLost,
		},
		"an XID of a MIG device": {
			script{{1, apply(migXID("GPU-1", 1, 0, 61))}}, func(v health.View) health.Status { return v.OfMIG("GPU-1", mig) }, cause.DeviceXID,
		},
		"a healthy GPU": {nil, first, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := tc.of(run(rules, append(script{{0, observe()}}, tc.script...)).View())
			if s.Kind != tc.want || s.Healthy != (tc.want == "") {
				t.Errorf("status %+v, want kind %q", s, tc.want)
			}
		})
	}
}

func first(v health.View) health.Status { return v.Of("GPU-0") }
