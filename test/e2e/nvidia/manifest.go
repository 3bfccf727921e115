// Package nvidia has facts from the documentation of NVIDIA's device plugin, 0.17 to 0.20: the
// programs of its manifests, with their variables, folders and rights. From these facts it makes
// equivalent manifests with another image.
package nvidia

import (
	"maps"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// Namespace is the namespace of the manifests.
const Namespace = "nvidia-device-plugin"

// Account is the service account of the chart, and the name of its cluster role.
const Account = "nvdp-nvidia-device-plugin-service-account"

// Image is the image that runs in the place of NVIDIA's.
type Image struct {
	Name string
	// StandIn says that the node has no container runtime of NVIDIA, and does not show the driver in the /proc and /sys
	// of containers. A mount of the host's root and variables then have the same effects.
	StandIn bool
}

// Versions returns the supported minor versions.
func Versions() []string { return []string{"0.17", "0.18", "0.19", "0.20"} }

// The folders of the host.
const (
	socketsDir  = "/var/lib/kubelet/device-plugins"
	featuresDir = "/etc/kubernetes/node-feature-discovery/features.d"
	mpsRoot     = "/run/nvidia/mps"
)

// container is a container of a DaemonSet. All of them have the same image.
type container struct {
	name string
	// command is the command of the container. If it is empty, the image's command runs.
	command []string
	env     map[string]string
	// fields are variables whose values are fields of the pod.
	fields map[string]string
	// mounts are the mount paths of volumes, by the names of the volumes.
	mounts map[string]string
}

// workload is a DaemonSet.
type workload struct {
	name             string
	init, containers []container
	// hosts are the hostPath volumes: the folders by the names of the volumes.
	hosts map[string]string
	// configs is the name of the ConfigMap with config files, or empty.
	configs string
	// account is the service account. If it is empty, the default is used.
	account string
}

// socketsVolume is the name of the volume with the kubelet's sockets.
func socketsVolume(version string) string {
	if version == "0.17" {
		return "device-plugin"
	}
	return "kubelet-device-plugins-dir"
}

// StaticPlugin returns the manifest nvidia-device-plugin.yml. It mounts only the kubelet's folder,
// and runs the image without a command.
func StaticPlugin(version string, image Image) (string, error) {
	volume := socketsVolume(version)
	return render(image, nil, workload{
		name:       "nvidia-device-plugin-daemonset",
		containers: []container{{name: "nvidia-device-plugin-ctr", mounts: map[string]string{volume: socketsDir}}},
		hosts:      map[string]string{volume: socketsDir},
	})
}

// StaticDiscovery returns the manifest gpu-feature-discovery-daemonset.yaml.
func StaticDiscovery(image Image) (string, error) {
	return render(image, nil, workload{
		name: "gpu-feature-discovery",
		containers: []container{{
			name: "gpu-feature-discovery", command: []string{"/usr/bin/gpu-feature-discovery"},
			env:    map[string]string{"MIG_STRATEGY": "none"},
			mounts: map[string]string{"output-dir": featuresDir, "host-sys": "/sys"},
		}},
		hosts: map[string]string{"output-dir": featuresDir, "host-sys": "/sys"},
	})
}

// Chart returns the manifests that the chart renders with gfd.enabled and a config file: DaemonSets
// for the plugin and for feature discovery, each with its config managers.
func Chart(version string, image Image, config string) (string, error) {
	sockets := socketsVolume(version)
	plugin := container{
		name: "nvidia-device-plugin-ctr", command: []string{"nvidia-device-plugin"},
		env: map[string]string{
			"MPS_ROOT": mpsRoot, "CONFIG_FILE": "/config/config.yaml", "NVIDIA_MIG_MONITOR_DEVICES": "all",
			"NVIDIA_VISIBLE_DEVICES": "all", "NVIDIA_DRIVER_CAPABILITIES": "compute,utility",
		},
		mounts: map[string]string{
			sockets: socketsDir, "mps-shm": "/dev/shm", "mps-root": "/mps", "cdi-root": "/var/run/cdi",
			"available-configs": "/available-configs", "config": "/config",
		},
	}
	discovery := container{
		name: "gpu-feature-discovery-ctr", command: []string{"gpu-feature-discovery"},
		env:    map[string]string{"CONFIG_FILE": "/config/config.yaml", "NVIDIA_MIG_MONITOR_DEVICES": "all"},
		fields: map[string]string{"NODE_NAME": "spec.nodeName", "NAMESPACE": "metadata.namespace", "POD_NAME": "metadata.name"},
		mounts: map[string]string{
			"output-dir": featuresDir, "host-sys": "/sys", "available-configs": "/available-configs", "config": "/config",
		},
	}
	const configs = "nvdp-nvidia-device-plugin-configs"
	workloads := []workload{
		{
			name: "nvdp-nvidia-device-plugin", account: Account, configs: configs,
			init:       []container{manager("nvidia-device-plugin-init", "")},
			containers: []container{manager("nvidia-device-plugin-sidecar", "nvidia-device-plugin"), plugin},
			hosts: map[string]string{
				sockets: socketsDir, "mps-root": mpsRoot, "mps-shm": mpsRoot + "/shm", "cdi-root": "/var/run/cdi",
			},
		},
		{
			name: "nvdp-nvidia-device-plugin-gpu-feature-discovery", account: Account, configs: configs,
			init:       []container{manager("gpu-feature-discovery-init", "")},
			containers: []container{manager("gpu-feature-discovery-sidecar", "gpu-feature-discovery"), discovery},
			hosts:      map[string]string{"output-dir": featuresDir, "host-sys": "/sys"},
		},
	}
	others := append(rightsOf(Account), object("v1", "ConfigMap", configs, map[string]any{"data": map[string]string{"config": config}}))
	return render(image, others, workloads...)
}

// manager returns a config manager. process is the process to signal. It is empty for the init
// container.
func manager(name, process string) container {
	c := container{
		name: name, command: []string{"config-manager"},
		env: map[string]string{
			"ONESHOT": "true", "KUBECONFIG": "", "NODE_LABEL": "nvidia.com/device-plugin.config",
			"CONFIG_FILE_SRCDIR": "/available-configs", "CONFIG_FILE_DST": "/config/config.yaml",
			"DEFAULT_CONFIG": "", "FALLBACK_STRATEGIES": "named,single",
			"SEND_SIGNAL": "false", "SIGNAL": "", "PROCESS_TO_SIGNAL": process,
		},
		fields: map[string]string{"NODE_NAME": "spec.nodeName"},
		mounts: map[string]string{"available-configs": "/available-configs", "config": "/config"},
	}
	if process != "" {
		c.env["ONESHOT"], c.env["SEND_SIGNAL"], c.env["SIGNAL"] = "false", "true", "1"
	}
	return c
}

// rightsOf returns the account of the chart with its rights.
func rightsOf(account string) []map[string]any {
	rule := func(group, resource string, verbs ...string) map[string]any {
		return map[string]any{"apiGroups": []string{group}, "resources": []string{resource}, "verbs": verbs}
	}
	return []map[string]any{
		object("v1", "ServiceAccount", account, nil),
		object("rbac.authorization.k8s.io/v1", "ClusterRole", account, map[string]any{"rules": []any{
			rule("", "nodes", "get", "list", "watch"),
			rule("nfd.k8s-sigs.io", "nodefeatures", "get", "list", "watch", "create", "update"),
			rule("", "pods", "get"),
		}}),
		object("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", account, map[string]any{
			"roleRef":  map[string]string{"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": account},
			"subjects": []any{map[string]string{"kind": "ServiceAccount", "name": account, "namespace": Namespace}},
		}),
	}
}

// render returns the manifests of the namespace, of the objects in others, and of workloads, in the
// order of their creation.
func render(image Image, others []map[string]any, workloads ...workload) (string, error) {
	all := append([]map[string]any{object("v1", "Namespace", Namespace, nil)}, others...)
	for _, w := range workloads {
		labels := map[string]string{"name": w.name}
		all = append(all, object("apps/v1", "DaemonSet", w.name, map[string]any{"spec": map[string]any{
			"selector": map[string]any{"matchLabels": labels},
			"template": map[string]any{"metadata": map[string]any{"labels": labels}, "spec": w.pod(image)},
		}}))
	}
	return documents(all...)
}

// object returns an object with the keys in more.
func object(api, kind, name string, more map[string]any) map[string]any {
	metadata := map[string]string{"name": name, "namespace": Namespace}
	if kind == "Namespace" || strings.HasPrefix(kind, "Cluster") {
		delete(metadata, "namespace")
	}
	o := map[string]any{"apiVersion": api, "kind": kind, "metadata": metadata}
	maps.Copy(o, more)
	return o
}

func documents(objects ...map[string]any) (string, error) {
	var b strings.Builder
	for _, o := range objects {
		text, err := yaml.Marshal(o)
		if err != nil {
			return "", err
		}
		b.WriteString("---\n" + string(text))
	}
	return b.String(), nil
}

// sorted returns the keys of a map in order.
func sorted[T any](m map[string]T) []string { return slices.Sorted(maps.Keys(m)) }
