package label

import (
	"slices"
	"strings"

	"outrigger.dev/agents/feature-discovery/internal/machine"
	"outrigger.dev/pkg/config"
	"outrigger.dev/pkg/pci"
)

// nfd is the domain of Node Feature Discovery.
const nfd = "feature.node.kubernetes.io/"

// Presence returns the labels that identify a node with GPUs before it has a driver:
// nvidia.com/gpu.present, and the labels that NVIDIA's operator uses to select a driver, with the
// same values as from Node Feature Discovery. It returns nil for a node without GPUs.
//
// As in Node Feature Discovery, a text that is not a valid value has no label. The kernel
// release is an exception: "_" replaces each invalid character, so that a driver for this exact
// release can be selected.
func Presence(devices []pci.Device, s machine.System) map[string]string {
	if !slices.ContainsFunc(devices, pci.Device.GPU) {
		return nil
	}
	l := labels{config.Domain + "gpu.present": "true", nfd + "pci-10de.present": "true"}
	for name, value := range map[string]string{
		"kernel-version.full":                kernel(s.Kernel),
		"system-os_release.ID":               s.ID,
		"system-os_release.VERSION_ID":       s.VersionID,
		"system-os_release.VERSION_ID.major": major(s.VersionID),
		"system-os_release.OSTREE_VERSION":   s.OSTreeVersion,
	} {
		if value != "" && isValue(value) {
			l[nfd+name] = value
		}
	}
	return l
}

func kernel(release string) string {
	return trim(strings.Map(func(r rune) rune {
		if inLabel(r) {
			return r
		}
		return '_'
	}, release))
}

// major returns the part of a version before the first dot, or "" if it is not a number.
func major(version string) string {
	number, _, _ := strings.Cut(version, ".")
	if strings.Trim(number, "0123456789") != "" {
		return ""
	}
	return number
}
