package cdi

import (
	"errors"
	"fmt"

	"outrigger.dev/pkg/driverroot"
	"outrigger.dev/pkg/gpu"
)

// Device is a device that a container can ask for by name.
type Device struct {
	Name  string
	Nodes []driverroot.DeviceNode
}

// ByUUID names a GPU by its UUID.
func ByUUID(g gpu.GPU) string { return string(g.UUID) }

// ByIndex names a GPU by its NVML index.
func ByIndex(g gpu.GPU) string { return fmt.Sprint(g.Index) }

// Devices returns the devices of gpus, in their order, named by name. A GPU
// with a fault is part of the result as long as its name and node are known,
// so that the spec does not change when a GPU breaks or heals. The error names
// every working GPU that has no device node.
func Devices(gpus []gpu.GPU, c *driverroot.Content, name func(gpu.GPU) string) ([]Device, error) {
	var out []Device
	var errs []error
	for _, g := range gpus {
		node, ok := c.GPUs[g.Minor]
		switch {
		case ok && name(g) != "" && (g.Fault == nil || g.UUID != ""):
			nodes := append([]driverroot.DeviceNode{node}, c.DRM[g.PCI.BusID]...)
			out = append(out, Device{Name: name(g), Nodes: nodes})
		case g.Fault == nil:
			errs = append(errs, fmt.Errorf("describe GPU %s: device node nvidia%d is missing (make it: nvidia-modprobe -c %d)",
				g.UUID, g.Minor, g.Minor))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return out, nil
}
