// Package index gives each GPU and MIG device of a node an index that stays with it until the next
// boot. NVML's index is a position in a list: it changes when a GPU leaves the bus or a MIG device
// is destroyed. The first agent of a boot writes NVML's indices to a file below the run root
// (contract.GPUIndex), and all agents and tools of the node use the indices in this file. No GPU gets
// the index of another GPU in the same boot.
//
// A second file, in a folder that survives a reboot, has the GPU that each index named first. If an
// index names another GPU after a reboot, a config that uses the index is ambiguous.
package index

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"outrigger.dev/pkg/contract"
	"outrigger.dev/pkg/gpu"
)

// changeLimit is the time limit for a change of MIG devices, including resets of GPUs.
const changeLimit = 10 * time.Minute

// Config configures Pins.
type Config struct {
	// Contract is the folder of the files that the agents of the node share.
	Contract contract.Dir
	// Dir is the folder with the file that survives a reboot. If it does not exist, Pins does not know
	// the GPUs that indices named before the last boot.
	Dir string
	// ReadOnly is set for a program that does not see the GPUs as NVML lists them. Such a program
	// writes no file.
	ReadOnly bool
	// Writer is the name of the program.
	Writer string
	Log    *slog.Logger
}

// Pins holds the indices of the GPUs of the node. It is safe for concurrent use. A nil *Pins keeps
// NVML's indices.
type Pins struct {
	cfg Config

	mu sync.Mutex
	// last is the table as this process knows it.
	last table
	// first maps each index to the GPU that it named first. Its file survives a reboot (see Config.Dir).
	first table
	// logged has the last message of each kind.
	logged map[string]string
}

// New returns Pins that read no file until they are used.
func New(cfg Config) *Pins {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Pins{cfg: cfg, last: newTable(), first: newTable(), logged: map[string]string{}}
}

// Apply replaces NVML's indices in a node that NVML has just listed, and orders its GPUs by their
// indices. hidden has the PCI bus IDs of the GPUs that NVML hides from this process and shows to other
// processes. If the files cannot be written, the indices are valid only for this process.
func (p *Pins) Apply(n *gpu.Node, hidden ...string) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	var at pinned
	p.change(func(t *table) { at = t.pin(n, hidden) })
	p.remember()
	p.report(n, p.apply(n, at))
}

// Keep writes the file of this boot again if another program has removed or damaged it.
func (p *Pins) Keep() {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.last.gpus) > 0 {
		p.change(func(*table) {})
	}
}

// Index returns the index of a GPU that Apply has seen.
func (p *Pins) Index(id gpu.UUID) (index int, known bool) {
	if p == nil {
		return 0, false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, s := range p.last.gpus {
		if s.id == id && id != "" {
			return i, true
		}
	}
	return 0, false
}

// Release frees the index of each MIG device that is destroyed and not held. A device is destroyed if
// its GPU works but no longer lists it. held reports whether a pod or a claim has a device.
//
// The parameter changing has the GPUs whose MIG devices the caller is about to change. If the next
// listing of such a GPU lacks devices that are not held now, their indices become free. Call Settle after
// the change. Only an agent that knows all pods and claims may call Release.
func (p *Pins) Release(n *gpu.Node, held func(gpu.UUID) bool, changing ...gpu.UUID) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.change(func(t *table) {
		t.release(n, held)
		for _, id := range changing {
			if g := n.ByUUID(id); g != nil {
				t.loosen(g, held, time.Now().Add(changeLimit))
			}
		}
	})
	p.remember()
}

// Settle ends what Release has announced for GPUs: from now on, a MIG device that disappears keeps its index.
// Call it after Apply has listed the result of the change.
func (p *Pins) Settle(changed ...gpu.UUID) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.change(func(t *table) {
		for _, id := range changed {
			if in := t.mig[id]; in != nil {
				clear(in.loose)
			}
		}
	})
}

// change applies edit to the table of this boot, and writes the table if edit has changed it. It can
// call edit twice.
func (p *Pins) change(edit func(*table)) {
	done := func(f contract.Fact) bool {
		before, stored := p.read(f)
		p.last = before.clone()
		edit(&p.last)
		return stored && p.last.equal(before)
	}
	if done(p.cfg.Contract.Read(contract.GPUIndex)) || p.cfg.ReadOnly {
		return
	}
	p.logOnce("write", p.cfg.Contract.Update(contract.GPUIndex, p.cfg.Writer, func(f contract.Fact) (*contract.Record, error) {
		if done(f) {
			return nil, nil //nolint:nilnil // nothing is to be written
		}
		return &contract.Record{Values: p.last.values()}, nil
	}))
}

// read returns the table in the file of this boot, and true. Without such a file it returns the table that
// this process knows or, at first, the table of the last boot without the indices of GPUs. Containers
// from before the boot may still use the other entries.
func (p *Pins) read(f contract.Fact) (t table, stored bool) {
	if f.State == contract.Valid && f.Stamp.Writer != "" {
		t, err := parse(f.Values)
		if err == nil {
			return t, true
		}
		p.logOnce("read", err)
	}
	if len(p.last.gpus) > 0 {
		return p.last, false
	}
	t = p.stored()
	t.gpus, t.since = map[int]slot{}, map[gpu.UUID]int{}
	return t, false
}

// stored returns the table in the file that survives a reboot, an empty one if there is no file.
func (p *Pins) stored() table {
	if p.cfg.Dir == "" {
		return newTable()
	}
	f := p.cfg.Contract.ReadFile(p.path())
	if f.State == contract.Unreadable {
		p.logOnce("stored", errors.New(f.Reason))
	}
	t, err := parse(f.Values)
	if err != nil {
		p.logOnce("stored", fmt.Errorf("read %s: %w", p.path(), err))
		return newTable()
	}
	return t
}

func (p *Pins) path() string { return filepath.Join(p.cfg.Dir, string(contract.GPUIndex)) }

// remember adds new indices and the MIG devices to the file that survives a reboot.
func (p *Pins) remember() {
	p.first = newTable()
	if info, err := os.Stat(p.cfg.Dir); p.cfg.Dir == "" || p.cfg.ReadOnly || err != nil || !info.IsDir() {
		return
	}
	before := p.stored()
	p.first = before.with(p.last)
	if p.first.equal(before) {
		return
	}
	p.logOnce("remember", p.cfg.Contract.UpdateFile(p.path(), p.cfg.Writer, func(contract.Fact) (*contract.Record, error) {
		p.first = p.stored().with(p.last)
		return &contract.Record{Values: p.first.values()}, nil
	}))
}

// with returns a copy of t with the MIG devices, names and choices of the table now. It also adds the
// indices that only the table now has.
func (t table) with(now table) table {
	out := t.clone()
	for at, s := range now.gpus {
		if _, has := t.gpus[at]; !has && s.id != "" {
			out.gpus[at] = s
		}
		if _, has := t.since[s.id]; !has && s.id != "" {
			out.since[s.id] = at
		}
	}
	if len(out.since) > mostKept {
		present := slices.Collect(maps.Values(now.gpus))
		maps.DeleteFunc(out.since, func(id gpu.UUID, _ int) bool {
			return !slices.ContainsFunc(present, func(s slot) bool { return s.id == id })
		})
	}
	out.numbers, out.choices = now.clone().numbers, now.clone().choices
	maps.Copy(out.mig, now.clone().mig)
	for _, in := range out.mig {
		clear(in.loose)
	}
	return out
}

// apply sets the indices of a node. It returns the GPUs that NVML lists at other indices.
func (p *Pins) apply(n *gpu.Node, at pinned) (moved []string) {
	for i := range n.GPUs {
		g := &n.GPUs[i]
		if g.Shifted = g.Index != at.gpus[i]; g.Shifted {
			moved = append(moved, fmt.Sprintf("%s: index %d, in NVML %d", g.UUID, at.gpus[i], g.Index))
		}
		g.Index = at.gpus[i]
		g.Earlier = p.earlier(g)
		if g.MIG == nil || at.mig[i] == nil {
			continue
		}
		for j := range g.MIG.Devices {
			m := &g.MIG.Devices[j]
			m.Shifted = m.Index != at.mig[i][j]
			m.Index = at.mig[i][j]
		}
	}
	slices.SortFunc(n.GPUs, func(a, b gpu.GPU) int { return a.Index - b.Index })
	p.last.name(n)
	return moved
}

// earlier returns how the index of a GPU differs from the index in the file that survives a reboot, or
// nil if it does not differ.
func (p *Pins) earlier(g *gpu.GPU) *gpu.Earlier {
	if g.UUID == "" {
		return nil
	}
	e := gpu.Earlier{UUID: cmp.Or(p.first.gpus[g.Index].id, g.UUID), File: p.path()}
	for at, s := range p.first.gpus {
		if s.id == g.UUID && at != g.Index {
			e.Indices = append(e.Indices, at)
		}
	}
	if at, has := p.first.since[g.UUID]; has && at != g.Index {
		e.Indices = append(e.Indices, at)
	}
	if e.UUID == g.UUID && len(e.Indices) == 0 {
		return nil
	}
	slices.Sort(e.Indices)
	e.Indices = slices.Compact(e.Indices)
	return &e
}
