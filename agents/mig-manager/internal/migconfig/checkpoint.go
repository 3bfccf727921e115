package migconfig

import (
	"encoding/json"
	"fmt"

	"outrigger.dev/pkg/config/strict"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/mig"
)

// Checkpoint is the MIG state of GPUs at a point in time, in mig-parted's format v1. It identifies
// profiles by their numbers in NVML. In addition, compute instances have their placements, which
// mig-parted ignores.
type Checkpoint struct {
	Version  string          `json:"Version"`
	MigState checkpointState `json:"MigState"`

	file string
}

type (
	checkpointState struct {
		Devices []checkpointDevice `json:"Devices"`
	}
	checkpointDevice struct {
		UUID gpu.UUID `json:"UUID"`
		// MigMode is 1 if the mode is on.
		MigMode      int                  `json:"MigMode"`
		GpuInstances []checkpointInstance `json:"GpuInstances"`
		key          string
	}
	checkpointInstance struct {
		ProfileID        int                 `json:"ProfileID"`
		Placement        checkpointPlacement `json:"Placement"`
		ComputeInstances []checkpointCompute `json:"ComputeInstances"`
	}
	checkpointCompute struct {
		ProfileID    int `json:"ProfileID"`
		EngProfileID int `json:"EngProfileID"`
		// Placement is nil in mig-parted's files.
		Placement *checkpointPlacement `json:"Placement,omitempty"`
	}
	checkpointPlacement struct {
		Start int `json:"Start"`
		Size  int `json:"Size"`
	}
)

// NewCheckpoint returns the state of the GPUs with a MIG mode. It returns an error if a GPU cannot be
// read, or has an instance with a profile that its board does not have.
func NewCheckpoint(gpus []mig.GPU) (Checkpoint, error) {
	c := Checkpoint{Version: version, MigState: checkpointState{Devices: []checkpointDevice{}}}
	for _, g := range gpus {
		if g.Fault != nil {
			return Checkpoint{}, fmt.Errorf("checkpoint GPU %d: %w", g.Index, g.Fault)
		}
		if !g.Capable {
			continue
		}
		d := checkpointDevice{UUID: g.UUID, GpuInstances: []checkpointInstance{}}
		if g.Enabled {
			d.MigMode = 1
		}
		for _, i := range g.Layout {
			saved, err := checkpointOf(g.Board, i)
			if err != nil {
				return Checkpoint{}, fmt.Errorf("checkpoint GPU %d: %w", g.Index, err)
			}
			d.GpuInstances = append(d.GpuInstances, saved)
		}
		c.MigState.Devices = append(c.MigState.Devices, d)
	}
	return c, nil
}

func checkpointOf(b mig.Board, i mig.Instance) (checkpointInstance, error) {
	p, ok := b.Profile(i.Profile)
	if !ok {
		return checkpointInstance{}, fmt.Errorf("the driver lists an instance %s, but no such profile", i.Profile)
	}
	out := checkpointInstance{ProfileID: p.Number, Placement: checkpointPlacement(i.Placement), ComputeInstances: []checkpointCompute{}}
	for _, c := range i.Compute {
		kind, ok := p.Of(c.Slices)
		if !ok {
			return checkpointInstance{}, fmt.Errorf("the driver lists an instance %s, but no such profile", i.Device(c))
		}
		place := checkpointPlacement(c.Placement)
		out.ComputeInstances = append(out.ComputeInstances, checkpointCompute{ProfileID: kind.Number, Placement: &place})
	}
	return out, nil
}

// JSON returns the checkpoint in the format of ReadCheckpoint and mig-parted.
func (c Checkpoint) JSON() ([]byte, error) {
	out, err := json.Marshal(c)
	if err != nil {
		return nil, fmt.Errorf("write checkpoint: %w", err)
	}
	return append(out, '\n'), nil
}

// ReadCheckpoint parses a checkpoint. file is the name in errors. It reports all errors at once.
func ReadCheckpoint(file string, data []byte) (Checkpoint, error) {
	doc := strict.Parse(file, data)
	c := Checkpoint{Version: version, file: file}
	root := doc.Root().Map("Version", "MigState")
	root.Get("Version").Require(version)
	state := root.Get("MigState")
	if !state.Set() {
		state.Missing("a mapping with Devices")
	}
	seen := map[gpu.UUID]string{}
	for _, v := range state.Map("Devices").Get("Devices").List() {
		d := readDevice(v)
		if other := seen[d.UUID]; other != "" && d.UUID != "" {
			v.Fail("has the UUID of %s", other)
		}
		seen[d.UUID] = v.Key()
		c.MigState.Devices = append(c.MigState.Devices, d)
	}
	if err := doc.Err(); err != nil {
		return Checkpoint{}, err
	}
	return c, nil
}

// maxNumber is the largest number in a checkpoint, for profiles and slices.
const maxNumber = 255

func readDevice(v strict.Value) checkpointDevice {
	m := v.Map("UUID", "MigMode", "GpuInstances")
	d := checkpointDevice{key: v.Key()}
	id := m.Get("UUID")
	word, ok := id.Text()
	if d.UUID = gpu.UUID(word); !id.Set() {
		id.Missing("the UUID of a GPU")
	} else if ok && !d.UUID.Valid() {
		id.Bad("the UUID of a GPU")
	}
	d.MigMode = number(m.Get("MigMode"), 1)
	instances := m.Get("GpuInstances")
	for _, i := range instances.List() {
		d.GpuInstances = append(d.GpuInstances, readInstance(i))
	}
	if d.MigMode == 0 && len(d.GpuInstances) > 0 {
		instances.Fail("MigMode is 0: a GPU has no instances then")
	}
	return d
}

func readInstance(v strict.Value) checkpointInstance {
	m := v.Map("ProfileID", "Placement", "ComputeInstances")
	i := checkpointInstance{ProfileID: number(m.Get("ProfileID"), maxNumber)}
	place := m.Get("Placement")
	if !place.Set() {
		place.Missing("a mapping with Start and Size")
	}
	i.Placement = readPlacement(place)
	for _, c := range m.Get("ComputeInstances").List() {
		fields := c.Map("ProfileID", "EngProfileID", "Placement")
		compute := checkpointCompute{ProfileID: number(fields.Get("ProfileID"), maxNumber)}
		if engine := fields.Get("EngProfileID"); engine.Set() {
			number(engine, 0)
		}
		if place := fields.Get("Placement"); place.Set() {
			p := readPlacement(place)
			compute.Placement = &p
		}
		i.ComputeInstances = append(i.ComputeInstances, compute)
	}
	return i
}

func readPlacement(v strict.Value) checkpointPlacement {
	if !v.Set() {
		return checkpointPlacement{}
	}
	m := v.Map("Start", "Size")
	return checkpointPlacement{Start: number(m.Get("Start"), maxNumber), Size: number(m.Get("Size"), maxNumber)}
}

// number reads a required number.
func number(v strict.Value, most int) int {
	if !v.Set() {
		v.Missing(fmt.Sprintf("an integer from 0 to %d", most))
	}
	n, _ := v.Int(0, most)
	return n
}
