package nvml

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"outrigger.dev/pkg/gpu"
)

// procGPU is what the kernel driver tells of a GPU without NVML.
type procGPU struct {
	busID string
	uuid  gpu.UUID
	name  string
	minor int
}

// procGPUs lists the GPUs that are bound to the driver, by their bus ID. It
// reads the names of folders only.
func procGPUs(procRoot string) map[string]procGPU {
	entries, err := os.ReadDir(filepath.Join(procRoot, "driver/nvidia/gpus"))
	if err != nil {
		return nil
	}
	out := map[string]procGPU{}
	for _, e := range entries {
		out[e.Name()] = procGPU{busID: e.Name(), minor: noMinor}
	}
	return out
}

// procIdentities reads what the kernel tells, if there is a device that NVML
// has not told enough about.
func procIdentities(procRoot string, devices []device) []procGPU {
	if !slices.ContainsFunc(devices, func(d device) bool { return d.gpu.Fault != nil }) {
		return nil
	}
	var out []procGPU
	for id, p := range procGPUs(procRoot) {
		data, err := os.ReadFile(filepath.Join(procRoot, "driver/nvidia/gpus", id, "information"))
		if err == nil {
			parseInformation(data, &p)
		}
		out = append(out, p)
	}
	slices.SortFunc(out, func(a, b procGPU) int { return strings.Compare(a.busID, b.busID) })
	return out
}

// parseInformation reads the lines of /proc/driver/nvidia/gpus/*/information.
// The UUID of a GPU that was never initialised is written with question marks.
func parseInformation(data []byte, p *procGPU) {
	lines := bufio.NewScanner(bytes.NewReader(data))
	for lines.Scan() {
		key, value, _ := strings.Cut(lines.Text(), ":")
		value = strings.TrimSpace(value)
		switch key {
		case "Model":
			p.name = printable(value)
		case "GPU UUID":
			if id := gpu.UUID(value); id.Valid() {
				p.uuid = id
			}
		case "Device Minor":
			if minor, err := strconv.Atoi(value); err == nil {
				p.minor = minor
			}
		}
	}
}

// identify fills in what NVML did not tell of faulty devices. A device without
// a bus ID is matched with the kernel's GPUs that NVML did not show. As both
// sides are in the order of the bus, this holds if there are as many of them.
func identify(devices []device, kernel []procGPU) {
	byID := map[string]procGPU{}
	for _, p := range kernel {
		byID[p.busID] = p
	}
	var unknown []*gpu.GPU
	for i := range devices {
		g := &devices[i].gpu
		p, ok := byID[g.PCI.BusID]
		if ok {
			fill(g, p)
			delete(byID, g.PCI.BusID)
		} else if g.PCI.BusID == "" {
			unknown = append(unknown, g)
		}
	}
	if len(unknown) != len(byID) {
		return
	}
	for _, p := range kernel {
		if _, ok := byID[p.busID]; ok {
			unknown[0].PCI.BusID = p.busID
			fill(unknown[0], p)
			unknown = unknown[1:]
		}
	}
}

// fill sets the fields of g that are not known yet.
func fill(g *gpu.GPU, p procGPU) {
	if g.UUID == "" {
		g.UUID = p.uuid
	}
	if g.Name == "" {
		g.Name = p.name
	}
	if g.Minor == noMinor {
		g.Minor = p.minor
	}
}

// markDoubles marks GPUs with the UUID of another one: nobody could tell which
// of them an allocation means. The first one keeps it.
func markDoubles(devices []device) {
	first := map[gpu.UUID]int{}
	for i := range devices {
		g := &devices[i].gpu
		if g.UUID == "" {
			continue
		}
		if other, ok := first[g.UUID]; ok {
			if g.Fault == nil {
				g.Fault = &gpu.Fault{Op: "nvmlDeviceGetUUID", Reason: fmt.Sprintf("%s is the UUID of GPU %d too", g.UUID, other)}
			}
			g.UUID = ""
			continue
		}
		first[g.UUID] = g.Index
	}
}

// numaNode reads the NUMA node of a PCI device, -1 where there is none.
func numaNode(sysRoot, busID string) int {
	if busID == "" {
		return -1
	}
	data, err := os.ReadFile(filepath.Join(sysRoot, "bus/pci/devices", busID, "numa_node"))
	if err != nil {
		return -1
	}
	node, err := strconv.Atoi(string(bytes.TrimSpace(data)))
	if err != nil || node < 0 {
		return -1
	}
	return node
}

// memory holds what each GPU was like when it last worked. An index means the
// same GPU for as long as NVML is initialised.
type memory struct {
	mu   sync.Mutex
	good map[int]gpu.GPU
}

// keep remembers the GPUs that work.
func (m *memory) keep(devices []device) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.good == nil {
		m.good = map[int]gpu.GPU{}
	}
	for _, d := range devices {
		if d.gpu.Fault == nil {
			m.good[d.gpu.Index] = d.gpu
		}
	}
}

// recall makes faulty GPUs look as when they worked, but for their fault.
func (m *memory) recall(devices []device) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range devices {
		g := &devices[i].gpu
		if was, ok := m.good[g.Index]; ok && g.Fault != nil {
			was.Fault = g.Fault
			*g = was
		}
	}
}
