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
		devices = append(devices, d)
		if g.MIG == nil {
			continue
		}
		for _, m := range g.MIG.Devices {
			devices = append(devices, Device{
				GPU: d.GPU, UUID: string(m.UUID), MIG: m.Profile.String(), Instance: fmt.Sprintf("%d/%d", m.GPUInstance, m.ComputeInstance),
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
