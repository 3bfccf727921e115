package health

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"outrigger.dev/pkg/cause"
	"outrigger.dev/pkg/gpu"
)

// Severity is the consequence of a fault.
type Severity string

// The values of Severity.
const (
	// Ignored faults have no consequence.
	Ignored Severity = "ignore"
	// Warning faults are reported, and the GPU stays healthy.
	Warning Severity = "warn"
	// Failure faults make the GPU unhealthy: no new pod or claim gets it.
	Failure Severity = "fail"
)

// Severities returns all values of Severity.
func Severities() []Severity { return []Severity{Ignored, Warning, Failure} }

// Class is a class of faults. The Rules have a severity for each class.
type Class string

// The classes whose severity cannot be changed, because a device with such a fault cannot be used.
const (
	// Lost is a GPU that left the bus, or a MIG device that is gone from its GPU.
	Lost Class = "lost"
	// Unreadable is a GPU or a MIG device that NVML cannot read.
	Unreadable Class = "unreadable"
)

// The classes of the lasting state that the driver reports. The driver reports it again after a restart
// of the agent.
const (
	RowRemapFailed        = Class(gpu.RowRemapFailed)
	UncorrectedECC        = Class(gpu.UncorrectedECC)
	RowRemapPending       = Class(gpu.RowRemapPending)
	PageRetirementPending = Class(gpu.PageRetirementPending)

	// FabricFailed is a GPU that could not join its NVLink fabric. FabricJoining is a GPU that has
	// not joined it yet.
	FabricFailed  Class = "fabric-failed"
	FabricJoining Class = "fabric-joining"

	// The recovery actions that the driver asks for.
	RecoveryReset         Class = "recovery-reset"
	RecoveryReboot        Class = "recovery-reboot"
	RecoveryDrainP2P      Class = "recovery-drain-p2p"
	RecoveryDrainAndReset Class = "recovery-drain-and-reset"
	RecoveryIMEXDomain    Class = "recovery-imex-domain"
)

// The classes of XIDs, by the action of the catalogue.
const (
	XIDIgnore     Class = "xid-ignore"
	XIDRestartApp Class = "xid-restart-app"
	XIDUpdate     Class = "xid-update"
	XIDSupport    Class = "xid-support"
	XIDReset      Class = "xid-reset"
	XIDReboot     Class = "xid-reboot"
)

// class describes a Class: its severity by default, its cause code and its texts.
type class struct {
	name     Class
	severity Severity
	kind     cause.Code
	// text describes the fault, and fix says how to end it. Both are empty if each fault of the class has
	// separate texts.
	text, fix string
}

// classes returns the classes whose severity can be changed, with their default. To add a class,
// add its row here, and return the class where the state is observed.
func classes() []class {
	return []class{
		{RowRemapFailed, Failure, cause.DeviceMemory, "a row of memory could not be remapped", "replace the GPU"},
		{UncorrectedECC, Failure, cause.DeviceMemory, "the memory has had an uncorrectable error", "reset the GPU"},
		{RowRemapPending, Failure, cause.DeviceMemory, "a row of memory waits to be remapped", "let programs end, then reset the GPU"},
		{PageRetirementPending, Failure, cause.DeviceMemory, "a page of memory waits to be retired", "let programs end, then reset the GPU"},
		{FabricFailed, Failure, cause.DeviceFabric, "", "see the log of the fabric manager, then reset the GPU"},
		{FabricJoining, Warning, cause.DeviceFabric, "the GPU has not joined its NVLink fabric yet", "nothing, unless it lasts: see the log of the fabric manager"},
		{RecoveryReset, Failure, cause.DeviceRecovery, "the driver asks for a reset of the GPU", ""},
		{RecoveryReboot, Failure, cause.DeviceRecovery, "the driver asks for a reboot of the node", ""},
		{RecoveryDrainP2P, Failure, cause.DeviceRecovery, "the driver asks to end the programs that use peer-to-peer traffic", ""},
		{RecoveryDrainAndReset, Failure, cause.DeviceRecovery, "the driver asks to let programs end, and then for a reset of the GPU", ""},
		// Only programs that span several nodes need the domain.
		{RecoveryIMEXDomain, Warning, cause.DeviceRecovery, "the driver asks to recover the IMEX domain of the node", ""},
		{XIDIgnore, Ignored, cause.DeviceXID, "", ""},
		{XIDRestartApp, Ignored, cause.DeviceXID, "", ""},
		{XIDUpdate, Failure, cause.DeviceXID, "", ""},
		{XIDSupport, Failure, cause.DeviceXID, "", ""},
		{XIDReset, Failure, cause.DeviceXID, "", ""},
		{XIDReboot, Failure, cause.DeviceXID, "", ""},
	}
}

// Classes returns the classes whose severity can be changed.
func Classes() []Class {
	var out []Class
	for _, c := range classes() {
		out = append(out, c.name)
	}
	return out
}

// xidPrefix begins the name of the class of a single XID: "xid-79".
const xidPrefix = "xid-"

// ParseClass returns the class with a name: one of Classes, or "xid-N" for the XID N.
func ParseClass(name string) (Class, error) {
	if slices.Contains(Classes(), Class(name)) {
		return Class(name), nil
	}
	if code, ok := strings.CutPrefix(name, xidPrefix); ok {
		if n, err := strconv.ParseUint(code, 10, 32); err == nil && ofXID(n) == Class(name) {
			return Class(name), nil
		}
	}
	return "", fmt.Errorf("unknown class %q: use xid-N for the XID N, or one of %s", name, list(Classes()))
}

// ParseSeverity returns the severity with a name.
func ParseSeverity(name string) (Severity, error) {
	if s := Severity(name); slices.Contains(Severities(), s) {
		return s, nil
	}
	return "", fmt.Errorf("unknown severity %q: use %s", name, list(Severities()))
}

func list[T ~string](values []T) string {
	words := make([]string, len(values))
	for i, v := range values {
		words[i] = string(v)
	}
	return strings.Join(words, ", ")
}

// ofXID returns the class of a single XID.
func ofXID(xid uint64) Class { return Class(xidPrefix + strconv.FormatUint(xid, 10)) }

// ofAction returns the class of the XIDs with an action.
func ofAction(a Action) Class {
	switch a {
	case Ignore:
		return XIDIgnore
	case RestartApp:
		return XIDRestartApp
	case Update:
		return XIDUpdate
	case Reset:
		return XIDReset
	case Reboot:
		return XIDReboot
	default:
		return XIDSupport
	}
}

// knownRecoveries returns the actions that have a class.
func knownRecoveries() []gpu.Recovery {
	return []gpu.Recovery{gpu.RecoveryReset, gpu.RecoveryReboot, gpu.RecoveryDrainP2P, gpu.RecoveryDrainAndReset, gpu.RecoveryIMEXDomain}
}

// ofRecovery returns the class of a recovery action, and false if the driver asks for none.
func ofRecovery(r gpu.Recovery) (Class, bool) {
	switch r {
	case gpu.RecoveryUnknown, gpu.RecoveryNone:
		return "", false
	case gpu.RecoveryReboot:
		return RecoveryReboot, true
	case gpu.RecoveryDrainP2P:
		return RecoveryDrainP2P, true
	case gpu.RecoveryDrainAndReset:
		return RecoveryDrainAndReset, true
	case gpu.RecoveryIMEXDomain:
		return RecoveryIMEXDomain, true
	default:
		return RecoveryReset, true
	}
}

// ofFabric returns the class of the state of an NVLink fabric, and false if the state is no fault.
func ofFabric(f *gpu.Fabric) (Class, bool) {
	switch {
	case f == nil, f.State == gpu.FabricCompleted && f.Status == gpu.FabricSuccess:
		return "", false
	case f.State == gpu.FabricCompleted:
		return FabricFailed, true
	default:
		return FabricJoining, true
	}
}
