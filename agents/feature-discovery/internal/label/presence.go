package label

import (
	"slices"
	"strings"

	"outrigger.dev/agents/feature-discovery/internal/machine"
	"outrigger.dev/pkg/config"
	"outrigger.dev/pkg/pci"
)

// nfd is the domain of node feature discovery.
const nfd = "feature.node.kubernetes.io/"

// Presence returns the labels by which others know a node with GPUs before there
// is a driver: nvidia.com/gpu.present, and those five of node feature discovery
// from which NVIDIA's operator chooses a driver, with its values. It is empty for
// a node without GPUs.
//
// As there, a text that cannot be the value of a label has none, but for the
// kernel, in which "_" takes the place of what may not be: those who look for the
// driver of an exact version must not find another one.
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

// major returns the number before the first dot of a version, "" if there is
// something else.
func major(version string) string {
	number, _, _ := strings.Cut(version, ".")
	if strings.Trim(number, "0123456789") != "" {
		return ""
	}
	return number
}
