package inventory_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gotest.tools/v3/assert"

	"outrigger.dev/agents/device-plugin/internal/inventory"
	"outrigger.dev/pkg/cause"
	"outrigger.dev/pkg/config"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/gputest"
	"outrigger.dev/pkg/resource"
)

func TestReportAsASentence(t *testing.T) {
	devices := []resource.Device{{UUID: "GPU-a", Index: "0"}, {UUID: "MIG-b", Index: "1:0"}}
	for name, tc := range map[string]struct {
		report inventory.Report
		want   string
	}{
		"devices that are unhealthy": {
			inventory.Report{Kind: cause.DeviceUnhealthy, Resources: []string{"nvidia.com/gpu"}, Devices: devices, Cause: cause.DeviceXID, Reason: "xid 79"},
			"xid: nvidia.com/gpu 0 GPU-a, 1:0 MIG-b: xid 79",
		},
		"devices of several resources": {
			inventory.Report{Kind: cause.DeviceUnhealthy, Resources: []string{"nvidia.com/gpu", "nvidia.com/mig-1g.5gb"}, Devices: devices, Cause: cause.DeviceXID, Reason: "xid 79"},
			"xid: nvidia.com/gpu, nvidia.com/mig-1g.5gb 0 GPU-a, 1:0 MIG-b: xid 79",
		},
		"devices with reasons of their own": {
			inventory.Report{Kind: cause.DeviceUnhealthy, Resources: []string{"nvidia.com/gpu"}, Devices: devices, Reason: "node a is missing", Others: true},
			"nvidia.com/gpu 0 GPU-a, 1:0 MIG-b: node a is missing; the same for other devices, see the log",
		},
		"a device that is healthy again": {
			inventory.Report{Kind: inventory.ReportHealthy, Resources: []string{"nvidia.com/gpu"}, Devices: devices[:1]},
			"nvidia.com/gpu 0 GPU-a: healthy again",
		},
		"a device that cannot be named": {
			inventory.Report{Kind: cause.DeviceNotOffered, Devices: []resource.Device{{Index: "3"}}, Reason: "it has no UUID"},
			"3: it has no UUID",
		},
		"what concerns the node": {
			inventory.Report{Kind: cause.GPUsNotOffered, Cause: cause.DeviceDriver, Reason: "no NVIDIA driver"}, "driver: no NVIDIA driver",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := tc.report.String(); got != tc.want {
				t.Errorf("String() = %q, want %q", got, tc.want)
			}
			if normal := tc.report.Kind == inventory.ReportHealthy; tc.report.Normal() != normal {
				t.Errorf("Normal() = %v, want %v", tc.report.Normal(), normal)
			}
		})
	}
}

// The 112 MIG devices of a node leave room for what has happened to them.
func TestAReportOfManyDevicesKeepsItsReason(t *testing.T) {
	r := inventory.Report{Kind: cause.DeviceUnhealthy, Resources: []string{"nvidia.com/mig-1g.10gb"}, Reason: "the driver hangs"}
	for i := range 112 {
		r.Devices = append(r.Devices, resource.Device{
			Index: fmt.Sprintf("%d:%d", i/7, i%7), UUID: gpu.UUID(fmt.Sprintf("MIG-00000000-0000-4000-8000-%012x", i)),
		})
	}
	got := r.String()
	if len(got) > 768 || !strings.HasSuffix(got, ", and 100 more: the driver hangs") {
		t.Errorf("%d bytes: %q", len(got), got)
	}
}

// TestOneIncidentIsOneReport follows what breaks on a node whose GPU 1 has devices of two
// resources.
func TestOneIncidentIsOneReport(t *testing.T) {
	for name, tc := range map[string]struct {
		breaks func(r *rig, id gpu.UUID)
		want   []cause.Code
		text   string
	}{
		"an XID of a GPU with devices of two resources": {
			func(r *rig, id gpu.UUID) { r.source.PostXID(id, 95) },
			[]cause.Code{cause.DeviceUnhealthy},
			"nvidia.com/mig-1g.5gb, nvidia.com/mig-3g.20gb 1:1 ",
		},
		"an XID of a GPU that is then lost": {
			func(r *rig, id gpu.UUID) {
				r.source.PostXID(id, 79)
				r.settled()
				r.source.Lose(id)
				r.after(time.Minute)
			},
			[]cause.Code{cause.DeviceUnhealthy},
			"xid 79",
		},
		"two XIDs": {
			func(r *rig, id gpu.UUID) {
				r.source.PostXID(id, 61)
				r.settled()
				r.source.PostXID(id, 95)
			},
			[]cause.Code{cause.DeviceUnhealthy, cause.DeviceUnhealthy},
			"xid 61",
		},
		"a driver that goes and comes back": {
			func(r *rig, _ gpu.UUID) {
				r.source.SetDriver(false)
				r.after(time.Minute)
				r.source.SetDriver(true)
				r.after(time.Minute)
			},
			[]cause.Code{cause.GPUsNotOffered, inventory.ReportHealthy},
			"no NVIDIA driver",
		},
		"a GPU that NVML lists at another index": {
			func(r *rig, id gpu.UUID) {
				n, err := r.source.Snapshot(r.t.Context())
				assert.NilError(r.t, err)
				moved := *n
				moved.GPUs = slices.Clone(n.GPUs)
				moved.GPUs[1].Shifted = true
				for range 2 {
					r.source.SetNode(&moved)
					r.after(time.Minute)
				}
			},
			[]cause.Code{cause.GPUIndexShifted},
			"the UUID",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, 2, func(c *inventory.Config) {
					c.Config.MIGStrategy = config.MIGStrategyMixed
				})
				id := gputest.Node(gputest.A100, 2).GPUs[1].UUID
				r.source.Partition(id, "3g.20gb", "1g.5gb")
				r.run()
				r.settled()
				tc.breaks(r, id)
				r.settled()
				all := r.reports.all
				if got := r.reports.kinds(); !slices.Equal(got, tc.want) {
					t.Fatalf("reported %v, want %q", all, tc.want)
				}
				if got := all[0].String(); !strings.Contains(got, tc.text) {
					t.Errorf("reported %q, want %q in it", got, tc.text)
				}
			})
		})
	}
}
