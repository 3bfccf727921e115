// Package gpu describes the GPUs of one node as a plain value.
//
// It is the first stage of every agent: a Source observes the node and returns a Node, pure
// packages derive the desired state from it, and other packages publish that state. A Node does not
// change after a Source has returned it.
package gpu

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// UUID identifies a GPU or a MIG device in the form of NVML, for example "GPU-5d0e1b9a-…" or
// "MIG-…".
type UUID string

// Valid reports whether id is not empty and has only letters, digits and "-". Other characters
// would break the kubelet's list of devices, metrics, and the CDI spec of all GPUs.
func (id UUID) Valid() bool {
	return id != "" && strings.IndexFunc(string(id), func(r rune) bool {
		return r != '-' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	}) < 0
}

// Node describes all GPUs of a node at one moment.
type Node struct {
	Driver Driver `json:"driver"`
	// GPUs is ordered by index.
	GPUs []GPU `json:"gpus"`
	// Links has one entry for each pair of working GPUs, A < B, ordered. It is empty in a snapshot
	// of a Linker.
	Links []Link `json:"links,omitempty"`
	// Missing has the calls that failed to read a value of Driver.
	Missing []Fault `json:"missing,omitempty"`
	// Choices records which devices the device plugin has shared, and which it has not. It is needed if
	// the config has only the number of the shared devices (package resource).
	Choices map[UUID]string `json:"choices,omitempty"`
}

// Complete reports whether the node has no faulty GPU or MIG device, and all values could be read.
// If it is not complete, a later snapshot may show more, without an event.
func (n *Node) Complete() bool {
	return len(n.Missing) == 0 && !n.Faulty() && !slices.ContainsFunc(n.GPUs, func(g GPU) bool { return len(g.Missing) > 0 })
}

// Faulty reports whether the node has a faulty GPU or MIG device.
func (n *Node) Faulty() bool { return slices.ContainsFunc(n.GPUs, GPU.faulty) }

func (g GPU) faulty() bool {
	return g.Fault != nil || g.MIG != nil && slices.ContainsFunc(g.MIG.Devices, MIGDevice.faulty)
}

func (d MIGDevice) faulty() bool { return d.Fault != nil }

// GPU returns the GPU with this index, nil if the node has none.
func (n *Node) GPU(index int) *GPU {
	return n.find(func(g *GPU) bool { return g.Index == index })
}

// ByUUID returns the GPU with this UUID, nil if the node has none.
func (n *Node) ByUUID(id UUID) *GPU {
	return n.find(func(g *GPU) bool { return g.UUID == id && id != "" })
}

func (n *Node) find(is func(*GPU) bool) *GPU {
	for i := range n.GPUs {
		if is(&n.GPUs[i]) {
			return &n.GPUs[i]
		}
	}
	return nil
}

// Driver holds the versions that NVML reports. A version that could not be read is zero.
type Driver struct {
	// Version of the kernel driver, for example "580.95.05".
	Version string `json:"version"`
	// NVMLVersion of the management library, for example "13.580.95.05".
	NVMLVersion string `json:"nvmlVersion"`
	// CUDA is the newest CUDA version that the driver supports.
	CUDA Version `json:"cuda"`
}

// Version is a major and minor number.
type Version struct {
	Major int `json:"major"`
	Minor int `json:"minor"`
}

// GPU is one physical GPU. A GPU that does not answer is listed with its Fault, and with the fields
// that could still be read.
type GPU struct {
	// Index is the position of the GPU in NVML's list when an agent first saw it. It stays with the
	// GPU until the next boot (package index).
	Index int  `json:"index"`
	UUID  UUID `json:"uuid"`
	// Shifted is set if NVML lists the GPU at another position now. Programs that ask NVML for the
	// index then get another GPU.
	Shifted bool `json:"shifted,omitempty"`
	// Earlier is set if Index named another GPU before the last boot, or another index named this
	// GPU.
	Earlier *Earlier `json:"earlier,omitempty"`
	// Minor is the number in the device node's name, /dev/nvidia<Minor>.
	Minor int `json:"minor"`
	// Alias replaces Minor in the names of ResourceSlices, if another GPU of the node had the name first,
	// or if the GPU had another minor at first.
	Alias        *int   `json:"alias,omitempty"`
	Name         string `json:"name"`
	Brand        string `json:"brand,omitempty"`
	Architecture string `json:"architecture,omitempty"`
	PCI          PCI    `json:"pci"`
	// NUMANode is the NUMA node of the PCI device, -1 if it has no NUMA node.
	NUMANode          int     `json:"numaNode"`
	MemoryBytes       uint64  `json:"memoryBytes"`
	ComputeCapability Version `json:"computeCapability"`
	// MIG is nil if the GPU has no Multi-Instance mode.
	MIG *MIG `json:"mig,omitempty"`
	// Fabric is nil if the GPU has no NVLink fabric.
	Fabric *Fabric `json:"fabric,omitempty"`
	// Recovery is the action that the GPU needs to become healthy, according to its driver.
	Recovery Recovery `json:"recovery,omitempty"`
	// MemoryFaults are the lasting memory faults, in the order of MemoryFaults.
	MemoryFaults []MemoryFault `json:"memoryFaults,omitempty"`
	// Missing has the calls that failed to read optional values. Those values are the last known
	// ones, or zero.
	Missing []Fault `json:"missing,omitempty"`
	// Fault is nil for a GPU that works.
	Fault *Fault `json:"fault,omitempty"`
}

// Earlier says which indices named a GPU before the last boot, and which GPU its present index named
// then. A config that uses one of these indices is ambiguous.
type Earlier struct {
	// Indices are the other indices that named this GPU.
	Indices []int `json:"indices,omitempty"`
	// UUID is the GPU that the present index of this GPU named. It is this GPU if the index named no
	// other GPU.
	UUID UUID `json:"uuid"`
	// File is the path of the file that records the earlier indices. If the file is removed, each index
	// means the GPU that it names now.
	File string `json:"file,omitempty"`
}

// String describes the earlier meaning: "its index named GPU-…, and the indices [3] named it".
func (e Earlier) String() string {
	text := "its index named " + string(e.UUID)
	if len(e.Indices) > 0 {
		text += fmt.Sprintf(", and the indices %v named it", e.Indices)
	}
	return text
}

// Ambiguous reports whether an index in a config may mean another GPU than it names now.
func (g *GPU) Ambiguous(index int) bool { return g.Earlier.Ambiguous(index, g.Index) }

// Ambiguous reports whether an index in a config may mean another GPU than it names now. The parameter
// now is the present index of the GPU of e. An index is ambiguous if it is equal to now, or if it named
// the GPU before the last boot.
func (e *Earlier) Ambiguous(index, now int) bool {
	return e != nil && (now == index || slices.Contains(e.Indices, index))
}

// Selector returns the name of the GPU for nvidia-smi: its index or, if NVML has another GPU at the
// index, its UUID.
func (g *GPU) Selector() string {
	if g.Shifted {
		return string(g.UUID)
	}
	return strconv.Itoa(g.Index)
}

// Recovery is an action that makes a GPU healthy again: a value of
// nvmlDeviceGpuRecoveryAction_t.
type Recovery string

// The values of Recovery.
const (
	RecoveryUnknown       Recovery = ""                    // the driver does not report it
	RecoveryNone          Recovery = "none"                // the GPU needs nothing
	RecoveryReset         Recovery = "reset"               // reset the GPU
	RecoveryReboot        Recovery = "reboot"              // reboot the node
	RecoveryDrainP2P      Recovery = "drain-p2p"           // end all peer-to-peer traffic
	RecoveryDrainAndReset Recovery = "drain-and-reset"     // let workloads end, admit no more, then reset
	RecoveryIMEXDomain    Recovery = "recover-imex-domain" // recover the IMEX domain of the node
)

// Needed reports whether the driver asks for an action.
func (r Recovery) Needed() bool { return r != RecoveryUnknown && r != RecoveryNone }

// PCI is the location of a GPU on the PCI bus.
type PCI struct {
	// BusID as sysfs writes it: "0000:17:00.0".
	BusID string `json:"busId"`
	// DeviceID and SubsystemID hold the device in the high 16 bits and the vendor in the low 16
	// bits, as NVML reports them.
	DeviceID    uint32 `json:"deviceId"`
	SubsystemID uint32 `json:"subsystemId"`
}

// Fault is the reason why a GPU cannot be used.
type Fault struct {
	// Op is the call that failed, for example "nvmlDeviceGetUUID".
	Op string `json:"op"`
	// Reason is NVML's text for the error: "GPU is lost".
	Reason string `json:"reason"`
}

// Error returns the fault in one line.
func (f *Fault) Error() string { return f.Op + ": " + f.Reason }

// Link describes the connection of two GPUs.
type Link struct {
	// A and B are indices, A < B.
	A int `json:"a"`
	B int `json:"b"`
	// NVLinks is the number of active NVLinks that directly connect A and B.
	NVLinks int `json:"nvLinks,omitempty"`
	// NVSwitch is the number of active NVLinks to the switches that both GPUs share. If the numbers
	// of the two GPUs differ, it is the lower one.
	NVSwitch int `json:"nvSwitch,omitempty"`
	// Path is the nearest common ancestor on the PCI tree.
	Path Path `json:"path"`
}

// Path is the nearest common ancestor of two GPUs on the PCI tree, in the terms of "nvidia-smi topo
// -m".
type Path string

// The values of Path, from near to far.
const (
	PathBoard        Path = "PSB"  // two GPUs of one board
	PathSwitch       Path = "PIX"  // one PCI switch
	PathSwitches     Path = "PXB"  // several PCI switches, no host bridge
	PathHostBridge   Path = "PHB"  // one host bridge
	PathNUMANode     Path = "NODE" // several host bridges of one NUMA node
	PathSystem       Path = "SYS"  // across NUMA nodes
	PathUndetermined Path = ""     // the driver does not report it
)
