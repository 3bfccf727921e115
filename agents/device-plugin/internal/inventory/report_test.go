package inventory_test

import (
	"fmt"
	"strings"
	"testing"

	"outrigger.dev/agents/device-plugin/internal/inventory"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/resource"
)

func TestReportAsASentence(t *testing.T) {
	devices := []resource.Device{{UUID: "GPU-a", Index: "0"}, {UUID: "MIG-b", Index: "1:0"}}
	for name, tc := range map[string]struct {
		report inventory.Report
		want   string
	}{
		"devices that are unhealthy": {
			inventory.Report{Kind: inventory.ReportUnhealthy, Resource: "nvidia.com/gpu", Devices: devices, Reason: "xid 79"},
			"nvidia.com/gpu 0 GPU-a, 1:0 MIG-b: xid 79",
		},
		"a device that is healthy again": {
			inventory.Report{Kind: inventory.ReportHealthy, Resource: "nvidia.com/gpu", Devices: devices[:1]},
			"nvidia.com/gpu 0 GPU-a: healthy again",
		},
		"a device that cannot be named": {
			inventory.Report{Kind: inventory.ReportNotOffered, Devices: []resource.Device{{Index: "3"}}, Reason: "it has no UUID"},
			"3: it has no UUID",
		},
		"what concerns the node": {
			inventory.Report{Kind: inventory.ReportWaiting, Reason: "no NVIDIA driver"}, "no NVIDIA driver",
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
	r := inventory.Report{Kind: inventory.ReportUnhealthy, Resource: "nvidia.com/mig-1g.10gb", Reason: "the driver hangs"}
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
