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

// deploy is the prefix of the labels that the DaemonSets of NVIDIA's GPU Operator select.
const deploy = config.Domain + "gpu.deploy."

// deployed are the names of the labels that NVIDIA's GPU Operator sets on nodes with GPUs for containers. DaemonSets of
// other programs select them. client is for DaemonSets that use the driver.
func deployed() []string {
	return []string{
		"client", "container-toolkit", "dcgm", "dcgm-exporter", "device-plugin", "driver", "gpu-feature-discovery",
		"node-status-exporter", "operator-validator",
	}
}

// Presence returns the labels that identify a node with GPUs before it has a driver:
// nvidia.com/gpu.present, and the labels nvidia.com/gpu.deploy.… of NVIDIA's operator. It also has the labels that this
// operator uses to select a driver, with the same values as from Node Feature Discovery. It returns nil for a node without
// GPUs.
//
// As in Node Feature Discovery, a text that is not a valid value has no label. The kernel
// release is an exception: "_" replaces each invalid character, so that a driver for this exact
// release can be selected.
func Presence(devices []pci.Device, s machine.System) map[string]string {
	if !slices.ContainsFunc(devices, pci.Device.GPU) {
		return nil
	}
	l := labels{config.Domain + "gpu.present": "true", nfd + "pci-10de.present": "true"}
	for _, name := range deployed() {
		l[deploy+name] = "true"
	}
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

// Yields reports whether presence does not change a label with this value while another writer owns it: labels of Node
// Feature Discovery, and labels of NVIDIA's operator. Their values keep agents off a node, or pause them. As for the
// operator, an empty value is no value.
func Yields(key, value string) bool {
	return strings.HasPrefix(key, nfd) || strings.HasPrefix(key, deploy) && value != ""
}

// Excludes reports whether a Node with these labels must not have a label. With nvidia.com/gpu.deploy.operands=false,
// NVIDIA's operator removes its labels.
func Excludes(labels map[string]string, key string) bool {
	return strings.HasPrefix(key, deploy) && labels[deploy+"operands"] == "false"
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
