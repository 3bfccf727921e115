package inventory

import (
	"errors"

	"outrigger.dev/pkg/config"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/resource"
)

// State is what is advertised at one moment. It is never changed.
type State struct {
	// Node is what Config applies to, and Prepared was made for both. It is nil
	// before the first observation that succeeded.
	Node     *gpu.Node
	Config   config.Config
	Prepared Prepared
	Set      resource.Set
	// Linked is set if Node has its links, as far as they can be read: see Link.
	Linked bool
	// Trouble is why the node cannot be advertised as it is.
	Trouble error
	// Hang is set while the driver hangs.
	Hang error
}

var errStarting = errors.New("start: the GPUs have not been read yet")

// Unusable returns why there are no devices to advertise, nil if there are.
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
