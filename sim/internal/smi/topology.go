package smi

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"unsafe" // cgo passes results as unsafe.Pointer
)

func (q query) topology(args []string) (query, error) {
	if len(args) == 2 && (args[1] == "-m" || args[1] == "--matrix") { // topo -m
		q.show = showTopology
		return q, nil
	}
	if len(args) == 3 && (args[1] == "-p2p" || args[1] == "--p2pstatus") && len(args[2]) == 1 && strings.Contains(capabilities, args[2]) {
		q.show, q.capability = showP2P, args[2]
		return q, nil
	}
	return q, notSimulated(strings.Join(args, " "))
}

// The words of the matrix, with their meaning.
const topologyLegend = `
Legend:

  X    = Self
  SYS  = Connection traversing PCIe as well as the SMP interconnect between NUMA nodes (e.g., QPI/UPI)
  NODE = Connection traversing PCIe as well as the interconnect between PCIe Host Bridges within a NUMA node
  PHB  = Connection traversing PCIe as well as a PCIe Host Bridge (typically the CPU)
  PXB  = Connection traversing multiple PCIe bridges (without traversing the PCIe Host Bridge)
  PIX  = Connection traversing at most a single PCIe bridge
  NV#  = Connection traversing a bonded set of # NVLinks
`

// writeTopology prints the matrix of nvidia-smi topo -m. The header is underlined, also in a file, as
// published output shows it.
func (q query) writeTopology(lib *library, out io.Writer) error {
	readers, faults := q.readers(lib)
	if faults != nil && len(readers) == 0 {
		return faults
	}
	var b strings.Builder
	b.WriteString("\t\x1b[4m")
	for _, r := range readers {
		fmt.Fprintf(&b, "GPU%d\t", r.gpu.index)
	}
	b.WriteString("CPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m\n")
	for _, r := range readers {
		fmt.Fprintf(&b, "GPU%d\t", r.gpu.index)
		for _, other := range readers {
			b.WriteString(connection(r, other) + "\t")
		}
		node := numaNode(r)
		cpus := unknown
		if data, err := os.ReadFile("/sys/devices/system/node/node" + node + "/cpulist"); err == nil {
			cpus = strings.TrimSpace(string(data))
		}
		fmt.Fprintf(&b, "%s\t%s\t\t%s\n", cpus, node, unknown)
	}
	b.WriteString(topologyLegend)
	_, err := io.WriteString(out, b.String())
	if faults != nil {
		return faults
	}
	return err
}

// connection returns the word for the connection of two GPUs.
func connection(a, b *reader) string {
	if a.handle == b.handle {
		return " X "
	}
	const nvlink = 2 // NVML_P2P_CAPS_INDEX_NVLINK
	var status uint32
	if a.lib.pairValueAt(a.handle, b.handle, "nvmlDeviceGetP2PStatus", nvlink, unsafe.Pointer(&status)) == nil && status == 0 {
		return "NV" + strconv.Itoa(linksUp(a))
	}
	var level uint32
	if a.lib.call3(a.handle, b.handle, "nvmlDeviceGetTopologyCommonAncestor", unsafe.Pointer(&level)) != nil {
		return unknown
	}
	// nvmlGpuTopologyLevel_t
	words := map[uint32]string{0: "PIX", 10: "PIX", 20: "PXB", 30: "PHB", 40: "NODE", 50: "SYS"}
	return words[level]
}

// linksUp returns the number of NVLinks of a GPU that are up.
func linksUp(r *reader) int {
	up := 0
	for i := range uint32(maxLinks) {
		if state := getAt[uint32](r, "nvmlDeviceGetNvLinkState", i); state.known && state.value == 1 {
			up++
		} else if !state.known {
			break
		}
	}
	return up
}

// numaNode returns the NUMA node of the host memory next to a GPU.
func numaNode(r *reader) string {
	nodes := [1]uint64{}
	const words, scopeNode = 1, 0
	if r.lib.deviceAffinity(r.handle, "nvmlDeviceGetMemoryAffinity", words, scopeNode, unsafe.Pointer(&nodes[0])) != nil {
		return unknown
	}
	for i := range 64 {
		if nodes[0]>>i&1 != 0 {
			return strconv.Itoa(i)
		}
	}
	return unknown
}
