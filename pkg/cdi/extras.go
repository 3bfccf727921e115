package cdi

import (
	"fmt"

	"outrigger.dev/pkg/driverroot"
)

// Channels returns one device for each of the requested IMEX channels that exist. The name of a
// device is the number of its channel.
func Channels(x driverroot.Extras, requested []int) []Device {
	var out []Device
	for _, n := range requested {
		if node, ok := x.IMEX[n]; ok {
			out = append(out, Device{Name: fmt.Sprint(n), Nodes: []driverroot.DeviceNode{node}})
		}
	}
	return out
}

// Whole returns the device All, with all nodes and files of a kind of optional
// hardware, or no device if the node lacks the hardware.
func Whole(p driverroot.Part) []Device {
	if !p.Found() {
		return nil
	}
	return []Device{{Name: All, Nodes: p.Nodes, Files: p.Files}}
}
