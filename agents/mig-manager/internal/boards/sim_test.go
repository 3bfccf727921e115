package boards_test

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"

	"gotest.tools/v3/assert"

	"outrigger.dev/agents/mig-manager/internal/boards"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/mig"
	"outrigger.dev/pkg/gpu/simtest"
)

// simProfile is a profile as "gpu-sim mig profiles --json" prints it.
type simProfile struct {
	Profile   int         `json:"profile"`
	ID        uint32      `json:"id"`
	Name      gpu.Profile `json:"name"`
	Slices    int         `json:"slices"`
	Size      int         `json:"size"`
	Starts    []int       `json:"starts"`
	Max       int         `json:"max"`
	MemoryMiB uint64      `json:"memoryMib"`
	SMs       int         `json:"sms"`
	Engines   gpu.Engines `json:"engines"`
	Compute   []struct {
		Profile int    `json:"profile"`
		ID      uint32 `json:"id"`
		Slices  int    `json:"slices"`
		Starts  []int  `json:"starts"`
		Max     int    `json:"max"`
	} `json:"compute"`
}

func (s simProfile) profile() mig.Profile {
	p := mig.Profile{
		Name: s.Name, Number: s.Profile, ID: s.ID, Max: s.Max, MemoryBytes: s.MemoryMiB << 20,
		Placements: places(s.Starts, s.Size), Engines: s.Engines,
	}
	p.Engines.Multiprocessors, p.Engines.GPUInstanceSlices = s.SMs, s.Slices
	for _, c := range s.Compute {
		p.Compute = append(p.Compute, mig.ComputeProfile{
			Slices: c.Slices, Number: c.Profile, ID: c.ID, Max: c.Max, Placements: places(c.Starts, c.Slices),
		})
	}
	return p
}

func places(starts []int, size int) []gpu.Placement {
	var list []gpu.Placement
	for _, s := range starts {
		list = append(list, gpu.Placement{Start: s, Size: size})
	}
	return list
}

// The simulator has its own table, from the same published figures.
func TestAsSimulated(t *testing.T) {
	for _, model := range simtest.Models(t) {
		t.Run(model, func(t *testing.T) {
			node := simtest.New(t, "--gpus=1", "--model="+model)
			product, named := boards.Named(model)
			if capable := bytes.Contains(node.Run("show", "--json"), []byte(`"migCapable": true`)); capable != named {
				t.Fatalf("the simulated GPU can be divided: %t, boards.yaml has it: %t; CONTRIBUTING.md says how to add a board", capable, named)
			}
			if !named {
				return
			}
			var list []simProfile
			assert.NilError(t, json.Unmarshal(node.Run("mig profiles", "--json", "0"), &list))
			if len(list) != len(product.Board.Profiles) {
				t.Fatalf("the simulator has %d profiles, the table has %d", len(list), len(product.Board.Profiles))
			}
			for i, got := range product.Board.Profiles {
				if want := list[i].profile(); !reflect.DeepEqual(got, want) {
					t.Errorf("the table has %+v, the simulator %+v", got, want)
				}
			}
		})
	}
}
