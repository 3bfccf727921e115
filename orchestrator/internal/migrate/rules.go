package migrate

import (
	"fmt"
	"slices"
	"strings"

	"outrigger.dev/charts"
)

// imageKeys are the sections with an image of NVIDIA's that Outrigger replaces by its own.
var imageKeys = []string{ //nolint:gochecknoglobals // it is constant
	"operator", "operator.validator", "validator", "toolkit", "devicePlugin", "gfd", "dcgmExporter", "migManager", "driver.manager", "draDriver",
}

// applyRules changes the values that have a known fix.
func (p *Plan) applyRules(o Options) {
	for _, key := range imageKeys {
		p.dropImage(key)
	}
	p.splitImage("driver")
	p.absent()
	p.drivers(o)
	p.runtime()
	if lookup(p.Values, "psa.enabled") == false {
		p.change("psa.enabled", nil, "Outrigger's agents have a namespace of their own, which accepts privileged pods", "")
	}
	if lookup(p.Values, "operator.defaultRuntime") == "docker" {
		// It is the default of NVIDIA's charts, whose operator detects the runtime all the same.
		remove(p.Values, "operator.defaultRuntime")
		p.Ignored = append(p.Ignored, Difference{Path: "operator.defaultRuntime", From: "docker", Why: "the toolkit detects the runtime of each node"})
	}
	if _, set := lookup(p.Values, "dcgmExporter.serviceMonitor.enabled").(bool); set && o.NoServiceMonitors {
		p.change("dcgmExporter.serviceMonitor.enabled", false, "the cluster has no kind ServiceMonitor", "install the Prometheus Operator, and set it to true")
	}
	if o.Registry != "" {
		set(p.Values, "global.registry", o.Registry)
	}
	if o.NamespaceExists {
		set(p.Values, "namespace.create", false)
	}
}

// absent handles components that Outrigger does not have. A component that is off has no effect. The section is removed.
func (p *Plan) absent() {
	for _, c := range []struct{ key, on, why, fix string }{
		{"dcgm", "dcgm.enabled", "Outrigger's exporter needs no DCGM", "install NVIDIA's DCGM separately if other programs use it"},
		{"nodeStatusExporter", "nodeStatusExporter.enabled", "the agents serve /metrics themselves", "scrape the agents"},
		{"sandboxWorkloads", "sandboxWorkloads.enabled", "GPUs for virtual machines are not supported", "keep nodes with virtual machines with NVIDIA's GPU Operator"},
		{"vgpuManager", "vgpuManager.enabled", "GPUs for virtual machines are not supported", "keep nodes with virtual machines with NVIDIA's GPU Operator"},
		{"kataManager", "kataManager.enabled", "GPUs for virtual machines are not supported", "keep nodes with virtual machines with NVIDIA's GPU Operator"},
		{"platform", "platform.openshift", "OpenShift is not supported", ""},
		{"gpuCluster", "gpuCluster.deployCR", "there is no GPUCluster", "use draDriver.enabled"},
	} {
		on := lookup(p.Values, c.on) == true
		section := lookup(p.Values, c.key)
		if section == nil {
			continue
		}
		delete(p.Values, c.key)
		d := Difference{Path: c.key, From: short(section), Why: c.why}
		if on {
			d.Path, d.From, d.To, d.Fix = c.on, "true", "off", c.fix
			p.Refused = append(p.Refused, d)
		} else if !empty(section) {
			p.Ignored = append(p.Ignored, d)
		}
	}
	p.inert()
}

// inert removes sections that have no effect.
func (p *Plan) inert() {
	if !enabled(p.Values, Driver) {
		for _, key := range []string{"gds", "gdrcopy"} {
			if lookup(p.Values, key+".enabled") == true {
				p.change(key, nil, "only the driver loader loads this module, and driver.enabled is false", "load the module on the host")
			}
		}
	}
	if lookup(p.Values, "nfd.enabled") == true {
		p.change("nfd.enabled", false, "feature discovery finds the nodes with GPUs itself", "install Node Feature Discovery separately if other programs use its labels: it goes with NVIDIA's chart")
	}
	for _, key := range []string{"ccManager", "kataSandboxDevicePlugin", "sandboxDevicePlugin", "vfioManager", "vgpuDeviceManager"} {
		if section := p.Values[key]; !empty(section) {
			p.Ignored = append(p.Ignored, Difference{Path: key, From: short(section), Why: "GPUs for virtual machines are not supported"})
		}
		delete(p.Values, key)
	}
	delete(p.Values, "clusterPolicy")
	delete(p.Values, "nfd")
	if nfd := p.Values["node-feature-discovery"]; nfd != nil {
		delete(p.Values, "node-feature-discovery")
		p.Ignored = append(p.Ignored, Difference{Path: "node-feature-discovery", From: short(nfd), Why: "Outrigger does not need Node Feature Discovery"})
	}
}

// dropImage removes the image of a section, because Outrigger has another image for it.
func (p *Plan) dropImage(key string) {
	section, is := lookup(p.Values, key).(map[string]any)
	if !is {
		return
	}
	name := imageOf(section)
	if version, is := section["version"].(string); name == "" && is {
		name = version
	}
	if name == "" {
		return
	}
	for _, part := range []string{"repository", "image", "version"} {
		delete(section, part)
	}
	p.Changed = append(p.Changed, Difference{Path: key + ".image", From: name, To: "Outrigger's image in global.registry", Why: "Outrigger runs its own program"})
}

// imageOf returns the image of a section in the form of NVIDIA's operator, or "".
func imageOf(section map[string]any) string {
	part := func(key string) string {
		value, _ := section[key].(string)
		return value
	}
	name := strings.Trim(part("repository")+"/"+part("image"), "/")
	if version := part("version"); version != "" && name != "" {
		separator := ":"
		if strings.HasPrefix(version, "sha256:") {
			separator = "@"
		}
		name += separator + version
	}
	return name
}

// splitImage splits an image that has its registry or its version in the key image: the GPU Operator accepts a whole
// reference there, if repository and version are empty.
func (p *Plan) splitImage(key string) {
	section, is := lookup(p.Values, key).(map[string]any)
	if !is {
		return
	}
	image, _ := section["image"].(string)
	slash := strings.LastIndex(image, "/")
	if slash < 0 || !empty(section["repository"]) {
		return
	}
	name, version := image[slash+1:], ""
	if before, digest, is := strings.Cut(name, "@"); is {
		name, version = before, digest
	} else if before, tag, is := strings.Cut(name, ":"); is {
		name, version = before, tag
	}
	section["repository"], section["image"] = image[:slash], name
	if version != "" && empty(section["version"]) {
		section["version"] = version
	}
	p.Changed = append(p.Changed, Difference{Path: key + ".image", From: image, To: imageOf(section), Why: "the registry, the name and the tag are separate values"})
}

// drivers completes the values of the driver, also in pools. The GPU Operator derives these values.
func (p *Plan) drivers(o Options) {
	p.driver("driver", o)
	pools, _ := p.Values["pools"].([]any)
	for i := range pools {
		p.driver(fmt.Sprintf("pools[%d].values.driver", i), o)
	}
}

// driver completes the values of the driver at a path. The GPU Operator derives the folder of package repositories from
// the distribution of a node, and has a default image.
func (p *Plan) driver(path string, o Options) {
	section, is := lookup(p.Values, path).(map[string]any)
	if !is {
		return
	}
	add := func(in map[string]any, at, key, value, why, fix string) {
		in[key] = value
		p.Changed = append(p.Changed, Difference{Path: at + "." + key, To: value, Why: why, Fix: fix})
	}
	if repo, is := section["repoConfig"].(map[string]any); is && !empty(repo["configMapName"]) && empty(repo["destinationDir"]) {
		folder := "/etc/apt/sources.list.d"
		if slices.ContainsFunc(o.Nodes, func(n charts.Node) bool {
			return slices.Contains([]string{"rhel", "rocky", "ol", "centos", "fedora"}, n.ID)
		}) {
			folder = "/etc/yum.repos.d"
		}
		add(repo, path+".repoConfig", "destinationDir", folder, "the GPU Operator derives the folder from the distribution of a node", "check the folder if your nodes have several distributions")
	}
	if path != "driver" || section["enabled"] != true || !empty(section["payload"]) {
		return
	}
	if empty(section["version"]) {
		p.Refused = append(p.Refused, Difference{Path: path + ".version", Why: "the GPU Operator takes a missing version from its own Deployment", Fix: "set driver.version to the version of your nodes: nvidia-smi shows it"})
		section["enabled"] = false
		return
	}
	if empty(section["repository"]) {
		add(section, path, "repository", "nvcr.io/nvidia", "the GPU Operator has a default for the driver's image", "")
	}
}

// runtime keeps GPUs by NVIDIA's runtime, if the GPU Operator does not use CDI. Its toolkit then makes this runtime the
// default of the container engine. Before v25.10, this was the default, and the device plugin had a variable for it.
func (p *Plan) runtime() {
	cdi, set := lookup(p.Values, "cdi.enabled").(bool)
	strategy := variable(p.Values, "devicePlugin.env", "DEVICE_LIST_STRATEGY")
	if cdi || !set && !strings.Contains(strategy, "envvar") || !enabled(p.Values, "toolkit") {
		return
	}
	if !set {
		p.change("cdi.enabled", false, "the device plugin has DEVICE_LIST_STRATEGY="+strategy, "")
	}
	for _, name := range []string{"NVIDIA_RUNTIME_SET_AS_DEFAULT", "CONTAINERD_SET_AS_DEFAULT", "DOCKER_SET_AS_DEFAULT", "CRIO_SET_AS_DEFAULT"} {
		if variable(p.Values, "toolkit.env", name) != "" {
			return
		}
	}
	p.change("toolkit.runtime.setAsDefault", true, "without CDI, NVIDIA's toolkit makes its runtime the default of the container engine",
		"after the migration, set cdi.enabled to true, and remove this value and DEVICE_LIST_STRATEGY of devicePlugin.env")
}

// variable returns the value of an environment variable in the list at a path, or "".
func variable(values map[string]any, path, name string) string {
	list, _ := lookup(values, path).([]any)
	for _, item := range list {
		if entry, is := item.(map[string]any); is && entry["name"] == name {
			value, _ := entry["value"].(string)
			return value
		}
	}
	return ""
}

// change sets a value, or removes it if to is nil, and records the difference.
func (p *Plan) change(path string, to any, why, fix string) {
	d := Difference{Path: path, Why: why, Fix: fix}
	if from := lookup(p.Values, path); from != nil {
		d.From = short(from)
	}
	if to == nil {
		remove(p.Values, path)
	} else {
		set(p.Values, path, to)
		d.To = text(to)
	}
	p.Changed = append(p.Changed, d)
}

// short returns a value in one line of limited length.
func short(value any) string {
	const most = 60
	if section, is := value.(map[string]any); is && len(section) > 0 {
		return fmt.Sprintf("%d values", len(flatten(section)))
	}
	line := []rune(text(value))
	if len(line) > most {
		return string(line[:most-1]) + "…"
	}
	return string(line)
}

// references returns the ConfigMaps and Secrets that values name, as "configmap NAME" or "secret NAME".
func references(values map[string]any) []string {
	var found []string
	add := func(kind string, name any) {
		if name, is := name.(string); is && name != "" {
			found = append(found, kind+" "+name)
		}
	}
	for _, path := range []string{
		"devicePlugin.config.name", "dcgmExporter.config.name", "migManager.config.name", "migManager.gpuClientsConfig.name",
		"driver.repoConfig.configMapName", "driver.certConfig.name", "driver.kernelModuleConfig.name", "driver.licensingConfig.configMapName",
	} {
		section := strings.TrimSuffix(path, ".name")
		if lookup(values, section+".create") != true {
			add("configmap", lookup(values, path))
		}
	}
	add("secret", lookup(values, "driver.licensingConfig.secretName"))
	for _, section := range values {
		section, is := section.(map[string]any)
		if !is {
			continue
		}
		secrets, _ := section["imagePullSecrets"].([]any)
		for _, secret := range secrets {
			if named, is := secret.(map[string]any); is {
				secret = named["name"]
			}
			add("secret", secret)
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}
