package facts

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// The names of the agents, as in the label app.kubernetes.io/component of their objects.
const (
	DriverLoader     = "driver-loader"
	ContainerToolkit = "container-toolkit"
	DevicePlugin     = "device-plugin"
	DRAPlugin        = "dra-plugin"
	MIGManager       = "mig-manager"
	FeatureDiscovery = "feature-discovery"
	Exporter         = "dcgm-exporter"
)

// Agent returns the name of the agent that an object or a pod with labels belongs to, or "". It knows the
// DaemonSets of NVIDIA's GPU Operator too.
func Agent(labels map[string]string) string {
	if labels["app.kubernetes.io/part-of"] == "outrigger" {
		return labels["app.kubernetes.io/component"]
	}
	app := cmp.Or(labels["app.kubernetes.io/name"], labels["app"])
	for _, agent := range [][2]string{
		{"nvidia-driver-daemonset", DriverLoader},
		{"nvidia-vgpu-manager", DriverLoader},
		{"nvidia-container-toolkit", ContainerToolkit},
		{"nvidia-device-plugin", DevicePlugin},
		{"nvidia-mig-manager", MIGManager},
		{"gpu-feature-discovery", FeatureDiscovery},
		{"nvidia-dcgm-exporter", Exporter},
		{"nvidia-operator-validator", "validator"},
	} {
		if strings.HasPrefix(app, agent[0]) {
			return agent[1]
		}
	}
	return ""
}

// VisibleDevices is the variable that says which GPUs a container sees. Its value is the only one of a variable that is read.
const VisibleDevices = "NVIDIA_VISIBLE_DEVICES"

// ResourcePrefix begins the names of the resources of GPUs and MIG devices.
const ResourcePrefix = "nvidia.com/"

// RequestsGPU reports whether a container of a pod requests a resource of NVIDIA.
func RequestsGPU(p *corev1.Pod) bool { return len(Requests(p)) > 0 }

// Ready reports whether a pod is ready.
func Ready(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// MayUseGPU reports whether a pod requests a resource of NVIDIA, or has a claim, which may be for a GPU.
func MayUseGPU(p *corev1.Pod) bool { return len(p.Spec.ResourceClaims) > 0 || RequestsGPU(p) }

// Requests returns the numbers of devices that a pod requests, by resource. Init containers run before the
// others, so the larger number counts.
func Requests(p *corev1.Pod) map[string]int64 {
	sum := devices(p.Spec.Containers, func(a, b int64) int64 { return a + b })
	for name, count := range devices(p.Spec.InitContainers, func(a, b int64) int64 { return max(a, b) }) {
		sum[name] = max(sum[name], count)
	}
	return sum
}

func devices(containers []corev1.Container, join func(a, b int64) int64) map[string]int64 {
	all := map[string]int64{}
	for i := range containers {
		// A request of an extended resource equals its limit, and the API server fills it in.
		for name, count := range containers[i].Resources.Limits {
			if strings.HasPrefix(string(name), ResourcePrefix) && !count.IsZero() {
				all[string(name)] = join(all[string(name)], count.Value())
			}
		}
	}
	return all
}
