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
	"outrigger.dev/pkg/text"
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
			p.name = text.Printable(value)
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

// markDoubles marks GPUs and MIG devices with the UUID of another one: nobody
// could tell which of them an allocation means. The first one keeps it.
func markDoubles(devices []device) {
	first := map[gpu.UUID]string{}
	mark := func(id *gpu.UUID, fault **gpu.Fault, what string) {
		if *id == "" {
			return
		}
		other, twice := first[*id]
		if !twice {
			first[*id] = what
			return
		}
		if *fault == nil {
			*fault = &gpu.Fault{Op: "nvmlDeviceGetUUID", Reason: fmt.Sprintf("%s is the UUID of %s too", *id, other)}
		}
		*id = ""
	}
	for i := range devices {
		g := &devices[i].gpu
		mark(&g.UUID, &g.Fault, fmt.Sprintf("GPU %d", g.Index))
	}
	for i := range devices {
		g := &devices[i].gpu
		for j := 0; g.MIG != nil && j < len(g.MIG.Devices); j++ {
			d := &g.MIG.Devices[j]
			mark(&d.UUID, &d.Fault, fmt.Sprintf("MIG device %d:%d", g.Index, d.Index))
		}
	}
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
			m.good[d.gpu.Index] = copyOf(d.gpu)
		}
	}
}

// recall makes faulty GPUs look as when they worked, but for their fault and
// what they need.
func (m *memory) recall(devices []device) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range devices {
		g := &devices[i].gpu
		if was, ok := m.good[g.Index]; ok && g.Fault != nil {
			was = copyOf(was)
			was.Fault, was.Recovery = g.Fault, g.Recovery
			*g = was
		}
	}
}

// copyOf returns a GPU that shares nothing with g that a reader of it may change.
func copyOf(g gpu.GPU) gpu.GPU {
	if g.MIG != nil {
		mig := *g.MIG
		mig.Devices = slices.Clone(mig.Devices)
		g.MIG = &mig
	}
	if g.Fabric != nil {
		fabric := *g.Fabric
		g.Fabric = &fabric
	}
	return g
}
