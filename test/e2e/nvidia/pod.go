package nvidia

// pod returns the pod of a workload with the image.
func (w workload) pod(image Image) map[string]any {
	var volumes []any
	if image.StandIn {
		volumes = append(volumes, hostFolder("stand-in-root", "/"))
	}
	for _, name := range sorted(w.hosts) {
		volumes = append(volumes, hostFolder(name, w.hosts[name]))
	}
	if w.configs != "" {
		volumes = append(volumes,
			map[string]any{"name": "available-configs", "configMap": map[string]string{"name": w.configs}},
			map[string]any{"name": "config", "emptyDir": map[string]any{}})
	}
	spec := map[string]any{
		"nodeSelector": map[string]string{"feature.node.kubernetes.io/pci-10de.present": "true"},
		"tolerations":  []any{map[string]string{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}},
		"volumes":      volumes,
		"containers":   containers(w.containers, image),
		// tests need no grace period
		"terminationGracePeriodSeconds": 5,
	}
	if len(w.init) > 0 {
		spec["initContainers"] = containers(w.init, image)
	}
	if w.configs != "" {
		spec["shareProcessNamespace"] = true
	}
	if w.account != "" {
		spec["serviceAccountName"] = w.account
	}
	return spec
}

func hostFolder(name, path string) map[string]any {
	kind := "DirectoryOrCreate"
	if path == "/" || path == "/sys" {
		kind = "Directory"
	}
	return map[string]any{"name": name, "hostPath": map[string]string{"path": path, "type": kind}}
}

func containers(all []container, image Image) []any {
	out := make([]any, len(all))
	for i, c := range all {
		out[i] = c.render(image)
	}
	return out
}

// render returns the container with the image. As a stand-in, a mount and variables replace the effects of
// NVIDIA's container runtime and of a real kernel: the runtime would add the driver and its device
// nodes, and the kernel would show the driver in every /proc and /sys.
func (c container) render(image Image) map[string]any {
	var env []any
	value := func(name, value string) { env = append(env, map[string]any{"name": name, "value": value}) }
	for _, name := range sorted(c.env) {
		value(name, c.env[name])
	}
	for _, name := range sorted(c.fields) {
		env = append(env, map[string]any{"name": name, "valueFrom": map[string]any{"fieldRef": map[string]string{"fieldPath": c.fields[name]}}})
	}
	var mounts []any
	if image.StandIn {
		value("PROC_ROOT", "/driver-root/proc")
		value("SYS_ROOT", "/driver-root/sys")
		mounts = append(mounts, map[string]any{"name": "stand-in-root", "mountPath": "/driver-root", "readOnly": true})
	}
	for _, name := range sorted(c.mounts) {
		mounts = append(mounts, map[string]any{"name": name, "mountPath": c.mounts[name]})
	}
	out := map[string]any{
		"name": c.name, "image": image.Name, "imagePullPolicy": "IfNotPresent", "env": env, "volumeMounts": mounts,
		"securityContext": map[string]bool{"privileged": true},
	}
	if len(c.command) > 0 {
		out["command"] = c.command
	}
	return out
}
