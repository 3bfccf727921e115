package migrate

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"outrigger.dev/charts"
)

// Difference is a value of the GPU Operator that Outrigger does not take over as it is.
type Difference struct {
	// Path is the key of the value in NVIDIA's chart: "devicePlugin.image".
	Path string `json:"path"`
	// From is the value, and To is Outrigger's value. To is empty if the value is removed.
	From string `json:"from,omitempty"`
	To   string `json:"to,omitempty"`
	Why  string `json:"why"`
	// Fix is an action of the user. It is empty if no action is needed.
	Fix string `json:"fix,omitempty"`
}

// Plan is the migration of an installation.
type Plan struct {
	// From and Unread are as in Source.
	From   []string `json:"from,omitempty"`
	Unread []string `json:"unread,omitempty"`
	// Values are the values of the chart outrigger after the migration. Start are the values during the migration:
	// they also keep the agents off the nodes until a hand-over.
	Values map[string]any `json:"values"`
	Start  map[string]any `json:"start"`
	// Same has the paths of the values that are taken over unchanged.
	Same []string `json:"same"`
	// Changed values get another value, Ignored ones have no effect in Outrigger and are removed, and Refused ones ask
	// for what Outrigger does not have.
	Changed []Difference `json:"changed"`
	Ignored []Difference `json:"ignored"`
	Refused []Difference `json:"refused"`
	// Copy lists the ConfigMaps and Secrets that the values name, with their kind. Outrigger reads them in the
	// namespace of its agents.
	Copy []string `json:"copy,omitempty"`
	// Steps are the hand-overs, in their order.
	Steps []Component `json:"steps"`
}

// Options describe the cluster. The zero value is for a plan without a cluster.
type Options struct {
	// Registry has Outrigger's images.
	Registry string
	// Kubernetes is the version of the cluster, such as v1.36.3.
	Kubernetes string
	// Nodes are the kinds of GPU nodes.
	Nodes []charts.Node
	// HostDrivers is the number of GPU nodes that have a driver of the host, and OtherDrivers the number of the others.
	HostDrivers, OtherDrivers int
	// NoServiceMonitors says that the cluster does not have the kind ServiceMonitor.
	NoServiceMonitors bool
	// NamespaceExists says that the namespace of Outrigger's agents exists.
	NamespaceExists bool
}

// kubernetes is the version of the cluster that a plan without a cluster assumes.
const kubernetes = "v1.36.3"

// New plans the migration of an installation. It reports all differences at once.
func New(s Source, o Options) *Plan {
	o.Kubernetes = cmp.Or(o.Kubernetes, kubernetes)
	if len(o.Nodes) == 0 {
		o.Nodes = []charts.Node{{Kernel: "6.8.0-60-generic", ID: "ubuntu", Version: "22.04"}}
	}
	p := &Plan{From: s.From, Unread: s.Unread, Values: clone(s.Values)}
	before := flatten(s.Values)
	p.fromDrivers(s)
	p.hostDrivers(o)
	p.applyRules(o)
	p.applyCharts(o)
	prune(p.Values)
	p.checkPools()
	p.finish(before)
	return p
}

// finish derives the rest of the plan from its values.
func (p *Plan) finish(before map[string]string) {
	for path, value := range flatten(p.Values) {
		if before[path] == value {
			p.Same = append(p.Same, path)
		}
	}
	slices.Sort(p.Same)
	for _, list := range []*[]Difference{&p.Changed, &p.Ignored, &p.Refused} {
		slices.SortStableFunc(*list, func(a, b Difference) int { return strings.Compare(a.Path, b.Path) })
	}
	p.Copy = references(p.Values)
	for _, c := range Components() {
		if enabled(p.Values, c.Key) {
			p.Steps = append(p.Steps, c)
		}
	}
	p.Start = start(p.Values, p.Steps)
}

// enabled reports whether values enable a component. The driver is the only component that the chart disables by
// default.
func enabled(values map[string]any, key string) bool {
	section, _ := values[key].(map[string]any)
	on, set := section["enabled"].(bool)
	return on || !set && key != "driver"
}

// flatten returns the values by path. Lists are values.
func flatten(values map[string]any) map[string]string {
	flat := map[string]string{}
	var walk func(prefix string, values map[string]any)
	walk = func(prefix string, values map[string]any) {
		for key, value := range values {
			if section, is := value.(map[string]any); is {
				walk(prefix+key+".", section)
			} else if !empty(value) {
				flat[prefix+key] = text(value)
			}
		}
	}
	walk("", values)
	return flat
}

// empty reports whether a value is the same as a missing one: null, "", {} or [].
func empty(value any) bool {
	switch value := value.(type) {
	case nil:
		return true
	case string:
		return value == ""
	case map[string]any:
		return !slices.ContainsFunc(slices.Collect(maps.Values(value)), func(v any) bool { return !empty(v) })
	case []any:
		return len(value) == 0
	}
	return false
}

// prune removes empty values.
func prune(values map[string]any) {
	maps.DeleteFunc(values, func(_ string, value any) bool {
		if section, is := value.(map[string]any); is {
			prune(section)
		}
		return empty(value)
	})
}

// text returns a value in one line.
func text(value any) string {
	switch value := value.(type) {
	case map[string]any:
		var parts []string
		for _, key := range slices.Sorted(maps.Keys(value)) {
			parts = append(parts, key+": "+text(value[key]))
		}
		return "{" + strings.Join(parts, ", ") + "}"
	case []any:
		parts := make([]string, len(value))
		for i, item := range value {
			parts[i] = text(item)
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case nil:
		return "null"
	}
	return fmt.Sprint(value)
}
