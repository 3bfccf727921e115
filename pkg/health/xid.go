package health

// end is the condition under which a GPU is healthy again after an XID.
type end int

// The conditions, from the mildest to the gravest.
const (
	// afterQuiet only needs some time without another XID. The program on the GPU has ended, but
	// the GPU continues to work.
	afterQuiet end = iota
	// afterReset needs the GPU to be reset.
	afterReset
	// afterReboot needs a reset of the GPU that its driver cannot do: a reboot of the node, a power
	// cycle, or attaching the GPU again.
	afterReboot
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

// endOf returns the condition that ends an XID. A driver also reports the recovery action that the GPU
// needs, so an XID without an immediate action ends after some time.
func endOf(xid uint64) end {
	switch action, _ := LookUpXID(xid); action {
	case Reboot:
		return afterReboot
	case Reset:
		return afterReset
	default:
		return afterQuiet
	}
}

// marksMemory reports whether an XID can leave a memory fault, which a snapshot shows.
func marksMemory(xid uint64) bool {
	switch xid {
	case 48, 63, 64, 92, 94, 95, 140, 156, 157, 160, 161, 171, 172:
		return true
	default:
		return false
	}
}
