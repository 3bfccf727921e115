package inventory

import (
	"errors"

	"outrigger.dev/pkg/config"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/resource"
)

// State has the advertised resources at one moment. It never changes.
type State struct {
	// Node is the node that Config applies to. Prepared belongs to this Node and Config. Node
	// is nil before the first successful observation.
	Node     *gpu.Node
	Config   config.Config
	Prepared Prepared
	Set      resource.Set
	// Linked is set if Node has the links that could be read: see Link.
	Linked bool
	// Trouble is the error of the last observation: the GPUs could not be read or prepared.
	Trouble error
	// Hang is set while the driver hangs.
	Hang error
}

var errStarting = errors.New("start: the GPUs have not been read yet")

// Unusable returns why there are no devices to advertise, or nil if there are some.
func (s State) Unusable() error {
	switch {
	case s.Hang != nil:
		return s.Hang
	case s.Node == nil && s.Trouble == nil:
		return errStarting
	case s.Node == nil, errors.Is(s.Trouble, gpu.ErrNoDriver):
		return s.Trouble
	case len(s.Set.Resources) == 0:
		return errors.New("advertise GPUs: no GPU of this node can be advertised; the log has the reason for each")
	}
	return nil
}
