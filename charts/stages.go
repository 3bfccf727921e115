package charts

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
)

const (
	// umbrella is the chart that has all other charts as its dependencies.
	umbrella = "outrigger"
	// orchestrator is the chart of the program that installs the others.
	orchestrator = "orchestrator"
	// NeedsAnnotation in Chart.yaml lists the charts that are installed before the chart.
	NeedsAnnotation = "outrigger.dev/needs"
	// AllNodesAnnotation in Chart.yaml is "true" for a chart from which the node labels follow that other
	// charts and pools select. Its values are the same on all nodes.
	AllNodesAnnotation = "outrigger.dev/all-nodes"
	// KeyAnnotation in Chart.yaml is the key of the chart's values in the umbrella.
	KeyAnnotation = "outrigger.dev/values-key"
	// agents is the folder of the umbrella with one template for each agent.
	agents = umbrella + "/templates/agents"
)

// releaseKinds are the kinds that a Helm release of the umbrella has even with the orchestrator: their
// objects give rights, or tenants share them. The template outrigger.releaseKinds has the same list.
var releaseKinds = []string{ //nolint:gochecknoglobals // it is constant
	"Namespace", "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding",
	"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding", "RuntimeClass", "DeviceClass",
}

// InRelease reports whether Helm installs the objects of a kind even with the orchestrator, which then has
// no right to change them.
func InRelease(kind string) bool { return slices.Contains(releaseKinds, kind) }

// Stage is a part of the umbrella chart that is installed as a unit.
type Stage struct {
	// Name is the name of the chart, such as device-plugin. The objects of the umbrella itself are the
	// stage outrigger.
	Name string
	// Key is the key of the chart's values in the umbrella's values, such as devicePlugin. It is empty
	// for the stage outrigger.
	Key string
	// Needs has the names of the present stages that are installed before this one.
	Needs []string
	// Manifest has the objects as YAML documents, in the order of installation.
	Manifest string
}

// Stages renders the charts of all agents with the values of the chart outrigger. A stage comes
// after the stages that it needs. Disabled agents are absent. If the chart does not accept the values, the error is of the
// type Problems. The key pools is validated, but has no effect: a caller renders once for each pool.
func Stages(r Release) ([]Stage, error) {
	c, err := Load(umbrella)
	if err != nil {
		return nil, err
	}
	keys, needs := map[string]string{}, map[string][]string{}
	for _, dependency := range c.Dependencies() {
		name, annotations := dependency.Name(), dependency.Metadata.Annotations
		keys[name], needs[name] = annotations[KeyAnnotation], splitList(annotations[NeedsAnnotation])
	}
	r.Values = without(r.Values, orchestrator)
	r.Values[orchestrator] = map[string]any{"enabled": false}
	r.service = umbrella
	mistakes, valid, err := checkValues(c, r.Values)
	if err != nil {
		return nil, err
	}
	r.Values, r.checked = without(valid, "pools"), true
	files, err := execute(c, r)
	var found Problems
	if errors.As(err, &found) || len(mistakes) > 0 {
		return nil, append(mistakes, found...).err()
	}
	if err != nil {
		return nil, err
	}
	manifests, err := byStage(files)
	if err != nil {
		return nil, err
	}
	order, err := sorted(needs)
	if err != nil {
		return nil, err
	}
	var stages []Stage
	for _, name := range append([]string{umbrella}, order...) {
		if manifest := manifests[name]; manifest != "" {
			present := slices.DeleteFunc(slices.Clone(needs[name]), func(n string) bool { return manifests[n] == "" })
			stages = append(stages, Stage{Name: name, Key: keys[name], Needs: present, Manifest: manifest})
		}
	}
	return stages, nil
}

// CRDs returns the CustomResourceDefinitions of the chart orchestrator, as YAML documents.
func CRDs() ([]byte, error) {
	c, err := Load(orchestrator)
	if err != nil {
		return nil, err
	}
	var out strings.Builder
	for _, crd := range c.CRDObjects() {
		fmt.Fprintf(&out, "---\n%s\n", strings.TrimSpace(strings.TrimPrefix(string(crd.File.Data), "---\n")))
	}
	return []byte(out.String()), nil
}

// without returns a copy of values without a key.
func without(values map[string]any, key string) map[string]any {
	copied := maps.Clone(values)
	if copied == nil {
		copied = map[string]any{}
	}
	delete(copied, key)
	return copied
}

// splitList returns the items of a comma-separated list.
func splitList(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' })
}

// byStage returns the objects of each stage from the umbrella's rendered templates.
func byStage(files map[string]string) (map[string]string, error) {
	grouped := map[string]map[string]string{}
	for file, text := range files {
		name := stageOf(file)
		if grouped[name] == nil {
			grouped[name] = map[string]string{}
		}
		grouped[name][file] = text
	}
	manifests := map[string]string{}
	for name, files := range grouped {
		text, err := objects(files)
		if err != nil {
			return nil, fmt.Errorf("render chart %s: %w", name, err)
		}
		manifests[name] = text
	}
	return manifests, nil
}

// stageOf returns the stage of a template of the umbrella.
func stageOf(file string) string {
	if path.Dir(file) == agents {
		return strings.TrimSuffix(path.Base(file), path.Ext(file))
	}
	return umbrella
}

// sorted returns the keys of needs. Each key comes after the keys that it needs, and keys with the
// shortest chain of needs come first. A name that is not a key counts in a chain.
func sorted(needs map[string][]string) ([]string, error) {
	depths := map[string]int{}
	var path []string
	var depth func(name string) (int, error)
	depth = func(name string) (int, error) {
		if at := slices.Index(path, name); at >= 0 {
			return 0, fmt.Errorf("annotation %s: the charts need each other: %s", NeedsAnnotation, strings.Join(append(path[at:], name), " needs "))
		}
		if d, known := depths[name]; known {
			return d, nil
		}
		path = append(path, name)
		longest := 0
		for _, need := range slices.Sorted(slices.Values(needs[name])) {
			d, err := depth(need)
			if err != nil {
				return 0, err
			}
			longest = max(longest, d+1)
		}
		path = path[:len(path)-1]
		depths[name] = longest
		return longest, nil
	}
	order := slices.Sorted(maps.Keys(needs))
	for _, name := range order {
		if _, err := depth(name); err != nil {
			return nil, err
		}
	}
	slices.SortStableFunc(order, func(a, b string) int { return cmp.Compare(depths[a], depths[b]) })
	return order, nil
}
