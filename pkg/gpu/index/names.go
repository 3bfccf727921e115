package index

import (
	"fmt"
	"maps"

	"outrigger.dev/pkg/gpu"
)

// aliased is the value in instances.places of a MIG device whose usual name in ResourceSlices another
// device had first.
const aliased = "-"

// nameGPUs gives each new GPU a number for its name in ResourceSlices. The number is the GPU's minor, or a
// higher one if another GPU of this node had this number before. The driver gives the minor of a
// GPU that has left to the next GPU that comes.
func (t *table) nameGPUs(n *gpu.Node) {
	for i := range n.GPUs {
		g := &n.GPUs[i]
		if _, has := t.numbers[g.UUID]; has || g.UUID == "" || g.Minor < 0 {
			continue
		}
		at, next, taken := g.Minor, 0, false
		for _, number := range t.numbers {
			next, taken = max(next, number+1), taken || number == at
		}
		for j := range n.GPUs {
			next = max(next, n.GPUs[j].Minor+1)
		}
		if taken {
			at = next
		}
		t.numbers[g.UUID] = at
	}
	if len(t.numbers) > mostKept {
		maps.DeleteFunc(t.numbers, func(id gpu.UUID, _ int) bool { return n.ByUUID(id) == nil })
	}
}

// nameDevices decides for each new MIG device whether it has its usual name.
func (in *instances) nameDevices(devices []gpu.MIGDevice) {
	for _, d := range devices {
		if d.UUID == "" || in.places[d.UUID] != "" || d.GPUInstance == gpu.NoInstance || d.ComputeInstance == gpu.NoInstance {
			continue
		}
		place := fmt.Sprintf("%d.%d", d.GPUInstance, d.ComputeInstance)
		// The names of the devices below floor are forgotten, so this device may have one of them.
		taken := in.floor > 0
		for _, other := range in.byIndex {
			taken = taken || in.places[other] == place
		}
		if taken {
			place = aliased
		}
		in.places[d.UUID] = place
	}
}

// name sets the aliases and the choices of a node whose indices are from t.
func (t *table) name(n *gpu.Node) {
	if n.Choices = nil; len(t.choices) > 0 {
		n.Choices = maps.Clone(t.choices)
	}
	for i := range n.GPUs {
		g := &n.GPUs[i]
		g.Alias = nil
		if number, has := t.numbers[g.UUID]; has && number != g.Minor && g.Minor >= 0 {
			g.Alias = &number
		}
		in := t.mig[g.UUID]
		for j := 0; g.MIG != nil && j < len(g.MIG.Devices); j++ {
			d := &g.MIG.Devices[j]
			if d.Alias = nil; in != nil && in.places[d.UUID] == aliased {
				index := d.Index
				d.Alias = &index
			}
		}
	}
}

// Choose stores the choices of the devices that the node has now, for gpu.Node.Choices. It does nothing
// before Apply.
func (p *Pins) Choose(choices map[gpu.UUID]string) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.last.gpus) == 0 || len(choices) == 0 {
		return
	}
	p.change(func(t *table) {
		if maps.Copy(t.choices, choices); len(t.choices) > mostKept {
			t.choices = maps.Clone(choices)
		}
	})
	p.remember()
}

// Choices returns all stored choices.
func (p *Pins) Choices() map[gpu.UUID]string {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.last.clone().choices
}
