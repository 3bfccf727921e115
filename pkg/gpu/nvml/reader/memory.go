package reader

import (
	"maps"
	"slices"
	"sync"

	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/nvml"
)

// memory holds values that need not be read again in a span of NVML. An index means the same GPU
// while NVML is initialized.
type memory struct {
	mu   sync.Mutex
	gpus map[int]*gpuRecord
}

// gpuRecord holds the known values of one GPU.
type gpuRecord struct {
	handle nvml.Device
	// constants are the known values that do not change. known has the symbols that need not be
	// called again for them.
	constants gpu.GPU
	known     map[string]bool
	// last is the GPU at its last reading, or nil. lacks has the values that could not be read then
	// (see failure).
	last  *gpu.GPU
	lacks map[string]bool
	// good is the GPU when it last worked, nil if it never did.
	good *gpu.GPU
}

// record returns the record of a GPU. The caller holds m.mu.
func (m *memory) record(index int) *gpuRecord {
	if m.gpus == nil {
		m.gpus = map[int]*gpuRecord{}
	}
	r := m.gpus[index]
	if r == nil {
		r = &gpuRecord{
			constants: gpu.GPU{Index: index, Minor: noMinor, NUMANode: -1},
			known:     map[string]bool{},
		}
		m.gpus[index] = r
	}
	return r
}

// constants returns a GPU with the known values, and the symbols that need not be called again.
func (m *memory) constants(index int) (gpu.GPU, map[string]bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.record(index)
	return r.constants, maps.Clone(r.known)
}

// begin returns a GPU with the known values, and a function that reports whether a value is due to
// be read. All values that can change, and all unknown constants, are due. If again is set and the GPU
// was not faulty, only the values that the last reading lacks are due.
func (m *memory) begin(index int, again bool) (d device, due func(value string) bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.record(index)
	d.gpu = r.constants
	if !again || r.last == nil || r.last.Fault != nil {
		known := maps.Clone(r.known)
		return d, func(value string) bool { return !known[value] }
	}
	last, lacks := cloneGPU(*r.last), r.lacks
	d.gpu.MemoryBytes, d.gpu.Fabric, d.gpu.Recovery, d.gpu.MemoryFaults = last.MemoryBytes, last.Fabric, last.Recovery, last.MemoryFaults
	if !lacks[partMIG] {
		d.gpu.MIG = last.MIG
	}
	return d, func(value string) bool { return lacks[value] }
}

// read remembers the GPU of a reading.
func (m *memory) read(d device) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.record(d.gpu.Index)
	last := cloneGPU(d.gpu)
	r.last, r.lacks = &last, map[string]bool{}
	for _, f := range d.failed {
		r.lacks[f.value] = true
	}
	// So far, Missing only has values of MIG devices.
	if one := (gpu.Node{GPUs: []gpu.GPU{last}}); !one.Complete() {
		r.lacks[partMIG] = true
	}
}

// storeConstants stores the constants of a GPU. The symbols in read need not be called again.
func (m *memory) storeConstants(g gpu.GPU, read ...string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.record(g.Index)
	// Two readers may have read different values at the same time.
	c := &r.constants
	c.UUID, c.Name = latest(c.UUID, g.UUID), latest(c.Name, g.Name)
	c.Brand, c.Architecture = latest(c.Brand, g.Brand), latest(c.Architecture, g.Architecture)
	c.PCI, c.ComputeCapability = latest(c.PCI, g.PCI), latest(c.ComputeCapability, g.ComputeCapability)
	c.MemoryBytes = latest(c.MemoryBytes, g.MemoryBytes)
	if g.Minor != noMinor {
		c.Minor = g.Minor
	}
	for _, symbol := range read {
		r.known[symbol] = true
	}
}

// latest returns the new value, or the old one if the new one is zero.
func latest[T comparable](old, now T) T {
	var zero T
	if now == zero {
		return old
	}
	return now
}

// handle returns the handle of a GPU, and false if it is not known.
func (m *memory) handle(index int) (nvml.Device, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	h := m.record(index).handle
	return h, h.Valid()
}

// keepHandle stores a handle. The zero handle stands for a GPU that does not work.
func (m *memory) keepHandle(index int, h nvml.Device) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.record(index).handle = h
}

// uuid returns the UUID of a GPU, empty if it is not known.
func (m *memory) uuid(index int) gpu.UUID {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.record(index).constants.UUID
}

// position returns NVML's index of the GPU with this UUID, and false if NVML does not list it.
func (m *memory) position(id gpu.UUID) (index int, known bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, r := range m.gpus {
		if id != "" && r.constants.UUID == id {
			return i, true
		}
	}
	return 0, false
}

// condition returns the condition of the GPU when it last worked.
func (m *memory) condition(index int) condition {
	m.mu.Lock()
	defer m.mu.Unlock()
	if good := m.record(index).good; good != nil {
		g := cloneGPU(*good)
		return conditionOf(&g)
	}
	return condition{}
}

// hasCondition reports whether c is the condition of the GPU at its last reading. It returns true
// if the GPU was not read, or did not work.
func (m *memory) hasCondition(index int, c condition) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	last := m.record(index).last
	return last == nil || last.Fault != nil || conditionOf(last).equal(c)
}

// rememberWorking stores the GPUs that work.
func (m *memory) rememberWorking(devices []device) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, d := range devices {
		if d.gpu.Fault == nil {
			g := cloneGPU(d.gpu)
			m.record(g.Index).good = &g
		}
	}
}

// restoreFaulty restores the values of faulty GPUs from the time when they last worked, except for
// the fault and the recovery.
func (m *memory) restoreFaulty(devices []device) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range devices {
		g := &devices[i].gpu
		if good := m.record(g.Index).good; good != nil && g.Fault != nil {
			was := cloneGPU(*good)
			was.Fault, was.Recovery, was.MemoryFaults, was.Missing = g.Fault, g.Recovery, g.MemoryFaults, nil
			*g = was
		}
	}
}

// cloneGPU returns a copy of g. The caller may change the copy without an effect on g.
func cloneGPU(g gpu.GPU) gpu.GPU {
	if g.MIG != nil {
		mig := *g.MIG
		mig.Devices, mig.GPUInstances = slices.Clone(mig.Devices), slices.Clone(mig.GPUInstances)
		g.MIG = &mig
	}
	if g.Fabric != nil {
		fabric := *g.Fabric
		g.Fabric = &fabric
	}
	g.Missing, g.MemoryFaults = slices.Clone(g.Missing), slices.Clone(g.MemoryFaults)
	return g
}
