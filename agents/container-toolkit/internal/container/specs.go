package container

import (
	"outrigger.dev/agents/container-toolkit/internal/facts"
	"outrigger.dev/agents/container-toolkit/internal/inject"
	"outrigger.dev/agents/container-toolkit/internal/request"
)

// kind is the CDI kind of the GPUs and MIG devices of a node.
const kind = "nvidia.com/gpu"

// Specs are the prepared CDI specs of a node. They contain facts that only NVML knows: the names of
// MIG devices, and the brand and architecture of GPUs. This program does not call NVML. The specs
// are read on first use.
type Specs struct {
	dirs []string
	set  *inject.Set
}

// NewSpecs returns the specs in the folders dirs. Later folders have precedence.
func NewSpecs(dirs ...string) *Specs { return &Specs{dirs: dirs} }

func (s *Specs) load() *inject.Set {
	if s.set == nil {
		s.set = inject.Load(s.dirs, []string{kind})
	}
	return s.set
}

// DeviceNodes returns the paths of the device nodes of a device.
func (s *Specs) DeviceNodes(name string) ([]string, error) {
	found, err := s.load().Resolve([]request.Device{{Asked: name, Kind: kind, Names: []string{name}}})
	if err != nil {
		return nil, err
	}
	var out []string
	for _, d := range found {
		for _, n := range d.Edits.DeviceNodes {
			out = append(out, n.Path)
		}
	}
	return out, nil
}

// Facts returns the facts in the specs, or nil. It skips a file that it cannot read.
func (s *Specs) Facts() *facts.Facts {
	for _, f := range s.load().Files {
		if known, err := facts.Read(f.Path, f.Data); err == nil && known != nil {
			return known
		}
	}
	return nil
}
