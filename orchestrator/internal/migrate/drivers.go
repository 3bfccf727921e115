package migrate

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// driverKeys are the fields of an NVIDIADriver that are values of the driver with the same name.
var driverKeys = []string{ //nolint:gochecknoglobals // it is constant
	"repository", "image", "version", "imagePullPolicy", "imagePullSecrets", "usePrecompiled", "kernelModuleType", "rdma", "gds", "gdrcopy",
	"args", "env", "resources", "certConfig", "kernelModuleConfig", "manager", "upgradePolicy", "secretEnv", "tolerations", "priorityClassName", "startupProbe", "livenessProbe", "readinessProbe", "hostNetwork",
}

// fromDrivers takes over NVIDIADriver objects. The driver without a selector sets the values, and each other driver
// becomes a pool.
func (p *Plan) fromDrivers(s Source) {
	if s.Cluster {
		p.Refused = append(p.Refused, Difference{Path: "GPUCluster", Why: "its nodes have NVIDIA's DRA driver", Fix: "install Outrigger with draDriver.enabled=true and devicePlugin.enabled=false, without this command"})
	}
	uses := lookup(p.Values, "driver.nvidiaDriverCRD.enabled") == true
	if uses || len(s.Drivers) > 0 {
		set(p.Values, "driver.nvidiaDriverCRD.enabled", false)
	}
	if uses && len(s.Drivers) == 0 {
		p.Changed = append(p.Changed, Difference{Path: "driver.nvidiaDriverCRD.enabled", From: "true", To: "false", Why: "Outrigger reads no NVIDIADriver objects", Fix: "give --from-file the NVIDIADriver objects too, to take over their values"})
	}
	drivers := slices.SortedFunc(slices.Values(s.Drivers), func(a, b unstructured.Unstructured) int {
		return cmp.Or(strings.Compare(selector(a), selector(b)), strings.Compare(a.GetName(), b.GetName()))
	})
	for i, d := range drivers {
		spec, _ := d.Object["spec"].(map[string]any)
		if kind, _ := spec["driverType"].(string); kind != "" && kind != "gpu" {
			p.Refused = append(p.Refused, Difference{Path: "NVIDIADriver " + d.GetName() + " driverType", From: kind, Why: "drivers for hosts of virtual machines are not supported", Fix: "keep its nodes with NVIDIA's GPU Operator"})
			continue
		}
		if spec["nodeAffinity"] != nil {
			p.Refused = append(p.Refused, Difference{Path: "NVIDIADriver " + d.GetName() + " nodeAffinity", From: short(spec["nodeAffinity"]), Why: "pools select nodes by labels", Fix: "give its nodes a label, and set it in nodeSelector of the pool"})
		}
		values := driverValues(spec)
		p.inherited(d.GetName(), values)
		if selector(d) == "" && i == 0 {
			maps.Copy(child(p.Values, "driver"), values)
			p.Changed = append(p.Changed, Difference{Path: "NVIDIADriver " + d.GetName(), To: "driver", Why: "Outrigger has these settings in its values"})
			continue
		}
		pools, _ := p.Values["pools"].([]any)
		name := poolName(d.GetName(), pools)
		p.Values["pools"] = append(pools, map[string]any{"name": name, "nodeSelector": spec["nodeSelector"], "values": map[string]any{"driver": values}})
		p.Changed = append(p.Changed, Difference{Path: "NVIDIADriver " + d.GetName(), To: "pools." + name, Why: "Outrigger has pools for nodes with other values"})
	}
}

// inherited reports the fields that an NVIDIADriver lacks and the ClusterPolicy has. A pool inherits them, and an
// NVIDIADriver does not.
func (p *Plan) inherited(name string, values map[string]any) {
	base, _ := p.Values["driver"].(map[string]any)
	var keys []string
	for key, value := range base {
		if key != "enabled" && key != "nvidiaDriverCRD" && !empty(value) && empty(values[key]) {
			keys = append(keys, key)
		}
	}
	if len(keys) > 0 {
		slices.Sort(keys)
		p.Changed = append(p.Changed, Difference{
			Path: "NVIDIADriver " + name + " " + strings.Join(keys, ", "), To: "the values of driver",
			Why: "the NVIDIADriver does not have these fields, and Outrigger then takes the values that are for all nodes", Fix: "check them",
		})
	}
}

// preInstalled is the value of the driver's label on nodes with a driver of the host.
const preInstalled = "pre-installed"

// hostDrivers plans for nodes with a driver of the host. NVIDIA's operator starts no driver container on them, also if
// its values enable the driver. Their driver has another root than the driver of a container.
func (p *Plan) hostDrivers(o Options) {
	if o.HostDrivers == 0 || !enabled(p.Values, Driver) {
		return
	}
	if o.OtherDrivers > 0 {
		p.Refused = append(p.Refused, Difference{
			Path: "driver.enabled", From: "true",
			Why: fmt.Sprintf("%d of %d GPU nodes have a driver of the host (%s%s=%s), and during the migration all agents look for the driver in one folder", o.HostDrivers, o.HostDrivers+o.OtherDrivers, deploy, Driver, preInstalled),
			Fix: fmt.Sprintf("hand over only the other nodes, with --nodes %s%s!=%s; the final values start Outrigger on these nodes", deploy, Driver, preInstalled),
		})
		return
	}
	p.change("driver.enabled", false, "all GPU nodes have a driver of the host", "")
	pools, _ := p.Values["pools"].([]any)
	for i := range pools {
		if driver, is := lookup(p.Values, fmt.Sprintf("pools[%d].values.driver", i)).(map[string]any); is {
			driver["enabled"] = false
		}
	}
}

// selector returns the node selector of an NVIDIADriver in one line, or "".
func selector(d unstructured.Unstructured) string {
	spec, _ := d.Object["spec"].(map[string]any)
	if empty(spec["nodeSelector"]) {
		return ""
	}
	return text(spec["nodeSelector"])
}

// driverValues returns the values of the driver for the spec of an NVIDIADriver.
func driverValues(spec map[string]any) map[string]any {
	spec = clone(spec)
	values := map[string]any{"enabled": true}
	for _, key := range driverKeys {
		if value := spec[key]; !empty(value) {
			values[key] = value
		}
	}
	delete(values, "manager")
	for _, module := range []string{"gds", "gdrcopy"} {
		if section, is := values[module].(map[string]any); is {
			values[module] = maps.Collect(only(section, "enabled", "repository", "image", "version"))
		}
	}
	if repo, _ := spec["repoConfig"].(map[string]any); !empty(repo["name"]) {
		values["repoConfig"] = map[string]any{"configMapName": repo["name"]}
	}
	if licensing, is := spec["licensingConfig"].(map[string]any); is && !empty(licensing) {
		rename(licensing, "name", "configMapName")
		values["licensingConfig"] = licensing
	}
	if policy, is := values["upgradePolicy"].(map[string]any); is {
		rename(policy, "podDeletion", "gpuPodDeletion")
	}
	return values
}

// only yields the entries of a map with the keys.
func only(values map[string]any, keys ...string) func(func(string, any) bool) {
	return func(yield func(string, any) bool) {
		for _, key := range keys {
			if value, is := values[key]; is && !yield(key, value) {
				return
			}
		}
	}
}

// notInName matches characters that are not valid in the name of a pool.
var notInName = regexp.MustCompile(`[^a-z0-9-]+`)

// poolNameMax is the largest length of the name of a pool.
const poolNameMax = 20

// poolName returns a valid name of a pool, which no other pool has.
func poolName(name string, pools []any) string {
	name = notInName.ReplaceAllString(name, "-")
	for i := 1; ; i++ {
		suffix := ""
		if i > 1 {
			suffix = fmt.Sprintf("-%d", i)
		}
		found := strings.Trim(name[:min(len(name), poolNameMax-len(suffix))], "-") + suffix
		if !slices.ContainsFunc(pools, func(p any) bool { return lookup(p.(map[string]any), "name") == found }) {
			return found
		}
	}
}
