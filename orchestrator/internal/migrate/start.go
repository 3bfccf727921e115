package migrate

import "maps"

// start returns the values during the migration. The agents select only nodes that have been handed over, and objects
// that NVIDIA's GPU Operator still owns are not created.
func start(values map[string]any, steps []Component) map[string]any {
	v := clone(values)
	for _, c := range steps {
		set(v, c.Key+".nodeSelector", map[string]any{})
		selector, _ := lookup(values, c.Key+".nodeSelector").(map[string]any)
		into := child(child(v, c.Key), "nodeSelector")
		maps.Copy(into, selector)
		into[c.Label] = Ours
	}
	// NVIDIA's operator labels the nodes, and its validator checks them, until it is uninstalled. It owns the RuntimeClasses.
	set(v, "gfd.presence.enabled", false)
	// GPUReady would need the agents that do not run on the node yet.
	set(v, "gfd.readyChain", []any{})
	set(v, "validator.enabled", false)
	set(v, "toolkit.runtimeClass.create", false)
	if enabled(values, Driver) && lookup(v, "global.nvidiaDriverRoot") == nil {
		root := lookup(values, "hostPaths.driverInstallDir")
		if empty(root) {
			root = "/run/nvidia/driver"
		}
		set(v, "global.nvidiaDriverRoot", root)
	}
	// A pool sets the driver's values, and not its selector: it selects the same nodes.
	pools, _ := v["pools"].([]any)
	for _, pool := range pools {
		pool, is := pool.(map[string]any)
		if !is {
			continue
		}
		if driver, is := lookup(pool, "values.driver").(map[string]any); is {
			driver["nodeSelector"] = map[string]any{deploy + "driver": Ours}
		}
	}
	return v
}
