package pci

import "strings"

// uevent is an event of a device.
type uevent struct{ action, subsystem string }

// parseUevent parses a message of the kernel: "ACTION@DEVPATH", and then variables, each terminated
// by a zero byte. Messages of udev begin with "libudev".
func parseUevent(message []byte) (uevent, bool) {
	head, variables, ok := strings.Cut(string(message), "\x00")
	if !ok || !strings.Contains(head, "@/") {
		return uevent{}, false
	}
	var e uevent
	for variable := range strings.SplitSeq(variables, "\x00") {
		// The kernel's own variables come first, and later ones must not replace them.
		switch name, value, _ := strings.Cut(variable, "="); {
		case name == "ACTION" && e.action == "":
			e.action = value
		case name == "SUBSYSTEM" && e.subsystem == "":
			e.subsystem = value
		}
	}
	return e, e.action != "" && e.subsystem != ""
}

// counts reports whether the result of Scan may have changed with the event.
func (e uevent) counts() bool {
	if e.subsystem != "pci" {
		return false
	}
	switch e.action {
	case "add", "remove", "bind", "unbind":
		return true
	default:
		return false
	}
}
