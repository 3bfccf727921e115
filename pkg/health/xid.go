package health

import (
	"fmt"
	"time"
)

// class is the condition under which a GPU is healthy again after an XID.
type class int

// The classes, from the mildest to the gravest.
const (
	// quietClass only needs some time without another XID. The program on the GPU has ended, but
	// the GPU continues to work.
	quietClass class = iota
	// resetClass needs the GPU to be reset.
	resetClass
	// rebootClass needs a reset of the GPU that its driver cannot do: a reboot of the node, a power
	// cycle, or attaching the GPU again.
	rebootClass
)

// recoveryChanged is the XID that a driver sends when it asks for another recovery action
// than before.
const recoveryChanged = 154

// Action is the action that NVIDIA's catalogue asks for after an XID.
type Action string

// The values of Action.
const (
	// Ignore asks for no action.
	Ignore Action = "ignore"
	// RestartApp asks to start the program on the GPU again.
	RestartApp Action = "restart app"
	// Update asks for other software or firmware.
	Update Action = "update"
	// Support asks to find the cause with NVIDIA's support. The catalogue has no immediate action.
	Support Action = "contact support"
	// Reset asks to reset the GPU.
	Reset Action = "reset"
	// Reboot asks to reboot the node or the virtual machine, or to check the hardware.
	Reboot Action = "reboot"
)

// xids is a range of XIDs with their action and meaning.
type xids struct {
	first, last uint64
	action      Action
	name        string
}

// LookUpXID returns the action and the meaning of an XID. The meaning is "" for an XID that is not in
// the catalogue.
func LookUpXID(xid uint64) (Action, string) {
	for _, x := range catalogue() {
		if xid >= x.first && xid <= x.last {
			return x.action, x.name
		}
	}
	return Support, ""
}

// classOf returns the class of an XID. A driver also reports the recovery action that it needs, so
// an XID without an immediate action is quiet.
func classOf(xid uint64) class {
	switch action, _ := LookUpXID(xid); action {
	case Reboot:
		return rebootClass
	case Reset:
		return resetClass
	default:
		return quietClass
	}
}

// describe returns the name of an XID and the condition under which the GPU is healthy again.
func describe(xid uint64, quiet time.Duration) string {
	_, name := LookUpXID(xid)
	text := fmt.Sprintf("xid %d", xid)
	if name != "" {
		text = fmt.Sprintf("%s (%s)", text, name)
	}
	switch classOf(xid) {
	case resetClass:
		return text + ": reset the GPU"
	case rebootClass:
		return text + ": reset the GPU or reboot the node"
	default:
		return fmt.Sprintf("%s: healthy again after %s without another", text, quiet)
	}
}
