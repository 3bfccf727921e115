package nri

import (
	"fmt"
	"slices"
	"strings"

	"outrigger.dev/pkg/podresources"
	"outrigger.dev/pkg/text"
)

// uuids returns the UUIDs of GPUs and MIG devices among allocated devices, each once.
// Device plugins for NVIDIA's GPUs list each device by its UUID, and replicas of a shared
// device as <UUID>::<number>. The function ignores devices of other plugins.
func uuids(devices []podresources.Allocation) ([]string, error) {
	var out []string
	for _, d := range devices {
		id, _, _ := strings.Cut(d.ID, "::")
		switch {
		case isUUID(id):
			if !slices.Contains(out, id) {
				out = append(out, id)
			}
		case isGPUResource(d.Resource):
			return nil, fmt.Errorf("inject GPUs: device %q of the resource %s is not named by the UUID of a GPU: disable the NRI plugin to use this device plugin",
				text.Cut(text.Printable(d.ID), 80), d.Resource)
		}
	}
	return out, nil
}

// isUUID reports whether an ID is the UUID of a GPU or of a MIG device.
func isUUID(id string) bool { return strings.HasPrefix(id, "GPU-") || strings.HasPrefix(id, "MIG-") }

// isGPUResource reports whether a resource has one of the names that NVIDIA's device plugin gives
// to resources of GPUs. Resources of virtual machines have other names.
func isGPUResource(resource string) bool {
	name, ok := strings.CutPrefix(resource, "nvidia.com/")
	return ok && (name == "gpu" || name == "gpu.shared" || strings.HasPrefix(name, "mig-"))
}

// checkAllocated returns an error unless each named device is allocated to a container of the
// pod. The kubelet does not list init containers. It gives an init container devices that it
// later gives to a container of the pod, if a container of the pod requests devices.
func checkAllocated(named []string, pod podresources.Pod) error {
	for _, name := range named {
		has := func(d podresources.Allocation) bool {
			id, _, _ := strings.Cut(d.ID, "::")
			return strings.EqualFold(id, name)
		}
		found := false
		for _, devices := range pod {
			found = found || slices.ContainsFunc(devices, has)
		}
		if !found {
			return fmt.Errorf("inject GPUs: the container names %s, but the kubelet does not report the devices of init containers, and has not allocated this device to another container of the pod: "+
				"request GPUs in a container of the pod too, or let the device plugin list devices by CDI (device-list-strategy cdi-cri)", text.Cut(text.Printable(name), 80))
		}
	}
	return nil
}
