package request

import (
	"slices"

	"outrigger.dev/agents/container-toolkit/internal/toolconfig"
)

// Mode returns the mode for a GPU container, "cdi", "legacy" or "csv", and the reason.
// configured is the value of nvidia-container-runtime.mode. hasSpec reports whether a CDI spec of
// a kind exists.
func (r *Request) Mode(configured string, hasSpec func(kind string) bool, defaultKind string) (mode, reason string) {
	const key = "nvidia-container-runtime.mode in config.toml"
	switch configured {
	case toolconfig.ModeAuto:
	case toolconfig.ModeJITCDI:
		return toolconfig.ModeCDI, key + " is jit-cdi: the CDI specs are prepared"
	default:
		return configured, key
	}
	if slices.ContainsFunc(r.Devices, func(d Device) bool { return d.Qualified }) {
		return toolconfig.ModeCDI, "the container names a CDI device"
	}
	if hasSpec(defaultKind) {
		return toolconfig.ModeCDI, "there is a CDI spec of kind " + defaultKind
	}
	return toolconfig.ModeLegacy, "there is no CDI spec of kind " + defaultKind
}
