package cdi

import (
	"fmt"

	"outrigger.dev/pkg/driverroot"
)

// Channels returns the IMEX channels that exist of those wanted, each under its
// number.
func Channels(x driverroot.Extras, wanted []int) []Device {
	var out []Device
	for _, n := range wanted {
		if node, ok := x.IMEX[n]; ok {
			out = append(out, Device{Name: fmt.Sprint(n), Nodes: []driverroot.DeviceNode{node}})
		}
	}
	return out
}

// Whole returns the device All of a piece of optional hardware, none if it is
// absent.
func Whole(p driverroot.Part) []Device {
	if !p.Found() {
		return nil
	}
	return []Device{{Name: All, Nodes: p.Nodes, Files: p.Files}}
}
