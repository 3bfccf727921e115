package view

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// The metrics of the exporter that top shows, with their units: percent, MiB, °C, W, and a ratio.
const (
	utilization = "DCGM_FI_DEV_GPU_UTIL"
	memoryUsed  = "DCGM_FI_DEV_FB_USED"
	memoryFree  = "DCGM_FI_DEV_FB_FREE"
	reserved    = "DCGM_FI_DEV_FB_RESERVED"
	temperature = "DCGM_FI_DEV_GPU_TEMP"
	power       = "DCGM_FI_DEV_POWER_USAGE"
	engine      = "DCGM_FI_PROF_GR_ENGINE_ACTIVE"
)

// Device is a GPU or a MIG device, and its use. A value that is not known is nil.
type Device struct {
	// GPU is the index of the GPU.
	GPU   string `json:"gpu"`
	UUID  string `json:"uuid,omitempty"`
	Model string `json:"model,omitempty"`
	// MIG is the profile of a MIG device, and Instance the id of its GPU instance, with "/" and the id of its compute instance if that is
	// known. They are empty for a GPU.
	MIG      string `json:"mig,omitempty"`
	Instance string `json:"instance,omitempty"`
	// Utilization is in percent of the time.
	Utilization *float64 `json:"utilization,omitempty"`
	// MemoryUsed and MemoryTotal are in MiB.
	MemoryUsed  *float64 `json:"memoryUsedMiB,omitempty"`
	MemoryTotal *float64 `json:"memoryTotalMiB,omitempty"`
	// Temperature is in degrees Celsius, and Power in watts. A GPU has them, and a MIG device does not.
	Temperature *float64 `json:"temperatureCelsius,omitempty"`
	Power       *float64 `json:"powerWatts,omitempty"`
	// Pods lists the pods that use the device, as "namespace/name".
	Pods []string `json:"pods,omitempty"`
	// Fault is why the GPU does not work, or "".
	Fault string `json:"fault,omitempty"`
}

// Devices reads the devices from the metrics of an exporter, in the text format of Prometheus.
func Devices(metrics string) ([]Device, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(metrics))
	if err != nil {
		return nil, fmt.Errorf("read metrics of the exporter: %w", err)
	}
	found := map[[2]string]*Device{}
	device := func(gpu, instance string) *Device {
		key := [2]string{gpu, instance}
		if found[key] == nil {
			found[key] = &Device{GPU: gpu, Instance: instance}
		}
		return found[key]
	}
	// The order is fixed, because the memory is a sum.
	for _, name := range []string{utilization, engine, memoryUsed, memoryFree, reserved, temperature, power} {
		for _, m := range families[name].GetMetric() {
			labels := labelsOf(m)
			// The labels of a MIG device have the UUID of its GPU.
			gpu, d := device(labels["gpu"], ""), device(labels["gpu"], labels["GPU_I_ID"])
			gpu.UUID, gpu.Model, d.MIG = labels["UUID"], labels["modelName"], labels["GPU_I_PROFILE"]
			if pod := labels["namespace"] + "/" + labels["pod"]; pod != "/" && !slices.Contains(d.Pods, pod) {
				d.Pods = append(d.Pods, pod)
			}
			// The series of one container of a shared GPU repeat the values of the GPU.
			switch {
			case labels["vgpu"] != "":
			case name == temperature || name == power:
				gpu.set(name, m.GetGauge().GetValue()+m.GetUntyped().GetValue())
			default:
				d.set(name, m.GetGauge().GetValue()+m.GetUntyped().GetValue())
			}
		}
	}
	return ordered(found), nil
}

func labelsOf(m *dto.Metric) map[string]string {
	labels := map[string]string{}
	for _, l := range m.GetLabel() {
		labels[l.GetName()] = l.GetValue()
	}
	return labels
}

func (d *Device) set(name string, value float64) {
	switch name {
	case utilization:
		d.Utilization = &value
	case engine:
		// A GPU instance has no other utilization.
		if d.Utilization == nil {
			d.Utilization = new(100 * value)
		}
	case memoryUsed:
		d.MemoryUsed, d.MemoryTotal = &value, new(value)
	case memoryFree, reserved:
		if d.MemoryTotal != nil {
			*d.MemoryTotal += value
		}
	case temperature:
		d.Temperature = &value
	case power:
		d.Power = &value
	}
}

// ordered returns the devices by index: each GPU, and its MIG devices after it. A GPU with MIG devices has neither their use nor their
// pods.
func ordered(found map[[2]string]*Device) []Device {
	split := map[string]bool{}
	for key := range found {
		split[key[0]] = split[key[0]] || key[1] != ""
	}
	devices := []Device{}
	for _, d := range found {
		if d.Instance == "" && split[d.GPU] {
			d.Utilization, d.MemoryUsed, d.MemoryTotal, d.Pods = nil, nil, nil, nil
		}
		slices.Sort(d.Pods)
		devices = append(devices, *d)
	}
	slices.SortFunc(devices, func(a, b Device) int {
		return cmp.Or(number(a.GPU)-number(b.GPU), number(a.Instance)-number(b.Instance))
	})
	return devices
}

// number returns an index, or 0 for a text without a number.
func number(s string) int {
	n, _ := strconv.Atoi(s)
	return n
}
