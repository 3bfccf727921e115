package metrics_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"gotest.tools/v3/assert"

	"outrigger.dev/agents/device-plugin/internal/metrics"
	"outrigger.dev/pkg/cause"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/health"
	"outrigger.dev/pkg/resource"
)

func TestRecorder(t *testing.T) {
	r := metrics.New("outrigger_device_plugin")
	r.Registered("nvidia.com/gpu", errors.New("no kubelet"))
	r.Registered("nvidia.com/gpu", nil)
	r.Event(gpu.Event{Kind: gpu.EventXID, GPU: "GPU-b", XID: 79, GPUInstance: gpu.NoInstance, ComputeInstance: gpu.NoInstance})
	r.Event(gpu.Event{Kind: gpu.EventXID, GPU: "GPU-b", XID: 94, GPUInstance: 3, ComputeInstance: gpu.NoInstance})
	r.Event(gpu.Event{Kind: gpu.EventXID, GPU: "GPU-b", XID: 94, GPUInstance: 3, ComputeInstance: 1})
	r.Event(gpu.Event{Kind: gpu.EventLost, GPU: "GPU-b"})
	r.Advertised(resource.Set{
		Resources: []resource.Resource{{Name: "nvidia.com/gpu", Devices: []resource.Device{
			{UUID: "GPU-a", Index: "0", Replicas: 4, Health: health.Status{Healthy: true}},
			{UUID: "GPU-b", Index: "1", Health: health.Status{Kind: cause.DeviceXID, Reason: "xid 79 (GPU has fallen off the bus)"}},
		}}},
		Unlisted: []resource.Unlisted{
			{Index: "2", Kind: cause.DeviceFault, Reason: "GPU is lost"},
			{Index: "3", Kind: cause.DeviceExcluded, Reason: "the config excludes it"},
		},
	})
	r.Waiting(cause.DeviceDriver)
	r.Configured(nil)
	r.Configured(errors.New("config.yaml: line 3: unknown key"))

	const want = `
# HELP outrigger_device_plugin_config_loads_total Configs that were read after startup, by result.
# TYPE outrigger_device_plugin_config_loads_total counter
outrigger_device_plugin_config_loads_total{result="error"} 1
outrigger_device_plugin_config_loads_total{result="ok"} 1
# HELP outrigger_device_plugin_config_refused 1 while the newest config is rejected, with the class of the reason: unreadable or invalid.
# TYPE outrigger_device_plugin_config_refused gauge
outrigger_device_plugin_config_refused{reason="invalid"} 1
# HELP outrigger_device_plugin_device_health 1 for a device that is advertised as healthy, 0 for one that is unhealthy, with the class of the reason.
# TYPE outrigger_device_plugin_device_health gauge
outrigger_device_plugin_device_health{device="GPU-a",index="0",reason="",resource="nvidia.com/gpu"} 1
outrigger_device_plugin_device_health{device="GPU-b",index="1",reason="xid",resource="nvidia.com/gpu"} 0
# HELP outrigger_device_plugin_device_replicas How many times a device is advertised.
# TYPE outrigger_device_plugin_device_replicas gauge
outrigger_device_plugin_device_replicas{device="GPU-a",index="0",resource="nvidia.com/gpu"} 4
outrigger_device_plugin_device_replicas{device="GPU-b",index="1",resource="nvidia.com/gpu"} 1
# HELP outrigger_device_plugin_registrations_total Registrations with the kubelet, by result.
# TYPE outrigger_device_plugin_registrations_total counter
outrigger_device_plugin_registrations_total{resource="nvidia.com/gpu",result="error"} 1
outrigger_device_plugin_registrations_total{resource="nvidia.com/gpu",result="ok"} 1
# HELP outrigger_device_plugin_unlisted_gpu 1 for each GPU or MIG device that cannot be advertised, with the class of the reason.
# TYPE outrigger_device_plugin_unlisted_gpu gauge
outrigger_device_plugin_unlisted_gpu{index="2",reason="fault"} 1
# HELP outrigger_device_plugin_waiting 1 while the GPUs of the node cannot be advertised, with the class of the reason.
# TYPE outrigger_device_plugin_waiting gauge
outrigger_device_plugin_waiting{reason="driver"} 1
# HELP outrigger_device_plugin_xid_events_total XIDs that the driver reported, including ignored ones; instance is <gpu instance>[/<compute instance>].
# TYPE outrigger_device_plugin_xid_events_total counter
outrigger_device_plugin_xid_events_total{gpu="GPU-b",instance="",xid="79"} 1
outrigger_device_plugin_xid_events_total{gpu="GPU-b",instance="3",xid="94"} 1
outrigger_device_plugin_xid_events_total{gpu="GPU-b",instance="3/1",xid="94"} 1
`
	assert.NilError(t, testutil.CollectAndCompare(r, strings.NewReader(want)))
	r.Configured(nil)
	if n := testutil.CollectAndCount(r, "outrigger_device_plugin_config_refused"); n != 0 {
		t.Errorf("%d series of a rejected config after one that is used, want none", n)
	}
	r.Waiting("")
	if n := testutil.CollectAndCount(r, "outrigger_device_plugin_waiting"); n != 0 {
		t.Errorf("%d series of waiting while nothing waits, want none", n)
	}
}

// A label that is not UTF-8 would end the process.
func TestTextThatIsNotUTF8DoesNotBreakTheMetrics(t *testing.T) {
	r := metrics.New("outrigger_device_plugin")
	const text = "no file /usr/lib/\xff\xfe"
	r.Event(gpu.Event{Kind: gpu.EventXID, GPU: gpu.UUID(text), XID: 79})
	r.Advertised(resource.Set{
		Resources: []resource.Resource{{Name: "nvidia.com/gpu", Devices: []resource.Device{{UUID: "GPU-a", Index: "0", Health: health.Status{Kind: cause.DeviceFault, Reason: text}}}}},
		Unlisted:  []resource.Unlisted{{Index: "2", Kind: cause.DeviceFault, Reason: text}},
	})
	r.Waiting(cause.DeviceFault)
	r.Configured(errors.New(text))
	if n, err := testutil.GatherAndCount(gatherer(t, r)); err != nil || n != 7 {
		t.Errorf("%d series, %v; want 7", n, err)
	}
}

func gatherer(t *testing.T, c prometheus.Collector) prometheus.Gatherer {
	t.Helper()
	reg := prometheus.NewPedanticRegistry()
	assert.NilError(t, reg.Register(c))
	return reg
}
