package model

// Places is the number of places for GPUs in a server.
const Places = 16

// Server describes the places of the GPUs in a server, and the NVLinks between them.
type Server struct {
	Name string
	// Places are in the order of the slots.
	Places [Places]Place
	// Links is nil if the server has no NVLink.
	Links *Links
}

// Place is a place in the PCI tree. Two GPUs with the same bridge are below one host bridge. Two GPUs
// with the same upper, if it is not 0, are below one upper switch. Lower works like Upper.
type Place struct {
	Domain, Bus, NUMANode, Bridge, Upper, Lower int
}

// Links describes the links between the GPUs of a baseboard and its NVSwitches.
type Links struct {
	// Version is NVML_NVLINK_VERSION_….
	Version int
	// Count is the number of links of one GPU, spread evenly over the switches.
	Count int
	// Fabric is set if the GPUs register with a fabric manager and report the state of the fabric
	// (Hopper and later).
	Fabric bool
	// Common is set if all GPUs reach the same switches (NVL72). Otherwise, only the GPUs of one PCI domain do.
	Common bool
	// SwitchID is the PCI ID of the switches, in the form of PCI.ID. Buses has their buses.
	SwitchID int
	Buses    []int
}

// servers returns all servers. The first one is the default.
func servers() []Server {
	return []Server{
		{Name: "pcie", Places: repeat(1, pairsBelowSwitches())},
		{Name: "hgx-a100", Places: repeat(1, dgxA100()), Links: &Links{
			Version: 4, Count: 12, SwitchID: 0x1af110de, Buses: []int{0xc4, 0xc5, 0xc6, 0xc7, 0xc8, 0xc9}, // six switches, two links to each
		}},
		{Name: "hgx-h100", Places: repeat(1, dgxH100()), Links: &Links{
			Version: 6, Count: 18, Fabric: true, SwitchID: 0x22a310de, Buses: []int{0x05, 0x06, 0x07, 0x08}, // four switches, four or five links to each
		}},
		// The links lead to two switches, as published. The values that NVML reports about the switches
		// are copied from HGX H100.
		{Name: "hgx-b200", Places: repeat(1, dgxH100()), Links: &Links{
			Version: 7, Count: 18, Fabric: true, SwitchID: 0x22a310de, Buses: []int{0x05, 0x06},
		}},
		// A compute tray has four GPUs. The switches are in other trays. The values that NVML reports
		// about the switches are copied from HGX B200.
		{Name: "nvl72", Places: repeat(0x40, tray()), Links: &Links{ // the domains of the next trays
			Version: 7, Count: 18, Fabric: true, Common: true, SwitchID: 0x22a310de, Buses: []int{0x05, 0x06},
		}},
	}
}

// repeat returns eight places, and the same places in the PCI domains that are higher by step.
func repeat(step int, places [Places / 2]Place) [Places]Place {
	var all [Places]Place
	for i, p := range places {
		all[i] = p
		p.Domain += step
		all[i+len(places)] = p
	}
	return all
}

// dgxA100 has each pair of GPUs below one upper switch and on a separate NUMA node.
func dgxA100() [Places / 2]Place {
	return [Places / 2]Place{
		{0, 0x07, 3, 1, 1, 1},
		{0, 0x0f, 3, 1, 1, 2},
		{0, 0x47, 1, 2, 2, 3},
		{0, 0x4e, 1, 2, 2, 4},
		{0, 0x87, 7, 3, 3, 5},
		{0, 0x90, 7, 3, 3, 6},
		{0, 0xb7, 5, 4, 4, 7},
		{0, 0xbd, 5, 4, 4, 8},
	}
}

// dgxH100 has a separate host bridge for each GPU. Four GPUs share a NUMA node.
func dgxH100() [Places / 2]Place {
	return [Places / 2]Place{
		{0, 0x1b, 0, 1, 1, 1},
		{0, 0x43, 0, 2, 2, 2},
		{0, 0x52, 0, 3, 3, 3},
		{0, 0x61, 0, 4, 4, 4},
		{0, 0x9d, 1, 5, 5, 5},
		{0, 0xc3, 1, 6, 6, 6},
		{0, 0xd1, 1, 7, 7, 7},
		{0, 0xdf, 1, 8, 8, 8},
	}
}

// pairsBelowSwitches has a pair of GPUs on each PCIe switch, and two switches below each host bridge.
func pairsBelowSwitches() [Places / 2]Place {
	return [Places / 2]Place{
		{0, 0x17, 0, 1, 1, 1},
		{0, 0x18, 0, 1, 1, 1},
		{0, 0x2a, 0, 1, 2, 2},
		{0, 0x2b, 0, 1, 2, 2},
		{0, 0x98, 1, 2, 3, 3},
		{0, 0x99, 1, 2, 3, 3},
		{0, 0xac, 1, 2, 4, 4},
		{0, 0xad, 1, 2, 4, 4},
	}
}

// tray has two GPUs on each of two CPUs, each in a separate PCI domain. The second tray, for nodes
// with more than four GPUs, is invented.
func tray() [Places / 2]Place {
	return [Places / 2]Place{
		{0x08, 0x06, 0, 1, 1, 1},
		{0x09, 0x06, 0, 2, 2, 2},
		{0x18, 0x06, 1, 3, 3, 3},
		{0x19, 0x06, 1, 4, 4, 4},
		{0x28, 0x06, 2, 5, 5, 5},
		{0x29, 0x06, 2, 6, 6, 6},
		{0x38, 0x06, 3, 7, 7, 7},
		{0x39, 0x06, 3, 8, 8, 8},
	}
}
