package request

import (
	"slices"

	"outrigger.dev/agents/container-toolkit/internal/toolconfig"
)

// Mode returns the mode for a GPU container, "cdi", "legacy" or "csv", and the reason.
// configured is the value of nvidia-container-runtime.mode. hasSpec reports whether a CDI spec of
// a kind exists. The modes auto and jit-cdi use the CDI specs of the node if there are any. Otherwise the
// hook of the mode legacy finds the driver while the container starts.
func (r *Request) Mode(configured string, hasSpec func(kind string) bool, defaultKind string) (mode, reason string) {
	if configured != toolconfig.ModeAuto && configured != toolconfig.ModeJITCDI {
		return configured, "nvidia-container-runtime.mode in config.toml"
	}
	if slices.ContainsFunc(r.Devices, func(d Device) bool { return d.Qualified }) {
		return toolconfig.ModeCDI, "the container names a CDI device"
	}
	if slices.ContainsFunc(r.Devices, func(d Device) bool { return d.ByInstance }) {
		return toolconfig.ModeLegacy, "the container names a MIG device as drivers before 470 do, and CDI specs do not have such names"
	}
	if hasSpec(defaultKind) {
		return toolconfig.ModeCDI, "there is a CDI spec of kind " + defaultKind
	}
	return toolconfig.ModeLegacy, "there is no CDI spec of kind " + defaultKind
}
