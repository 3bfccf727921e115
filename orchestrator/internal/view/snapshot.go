package view

import (
	"encoding/json"
	"fmt"
	"strconv"

	"outrigger.dev/pkg/gpu"
)

// Snapshot reads the devices from the output of an agent's command snapshot. The use of the devices is not known. It ignores
// fields that it does not know, because the agent can be newer.
func Snapshot(output string) ([]Device, error) {
	var node gpu.Node
	if err := json.Unmarshal([]byte(output), &node); err != nil {
		return nil, fmt.Errorf("read the snapshot: %w", err)
	}
	var devices []Device
	for _, g := range node.GPUs {
		d := Device{GPU: strconv.Itoa(g.Index), UUID: string(g.UUID), Model: g.Name, MemoryTotal: mib(g.MemoryBytes), Fault: fault(g.Fault)}
		if g.MIG == nil || len(g.MIG.Devices) == 0 {
			devices = append(devices, d)
			continue
		}
		for _, m := range g.MIG.Devices {
			devices = append(devices, Device{
				GPU: d.GPU, UUID: string(m.UUID), Model: d.Model, MIG: m.Profile.String(), Instance: strconv.FormatUint(uint64(m.GPUInstance), 10),
				MemoryTotal: mib(m.MemoryBytes), Fault: fault(m.Fault),
			})
		}
	}
	return devices, nil
}

func mib(bytes uint64) *float64 {
	if bytes == 0 {
		return nil
	}
	return new(float64(bytes >> 20))
}

func fault(f *gpu.Fault) string {
	if f == nil {
		return ""
	}
	return f.Error()
}
