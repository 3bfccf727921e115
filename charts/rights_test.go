package charts_test

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// object is what the tests read of the rights in a chart.
type object struct {
	APIVersion string
	Kind       string
	Metadata   struct{ Name, Namespace string }
	Rules      []rule
}

// rule is a rule of a Role.
type rule struct {
	APIGroups       []string `json:"apiGroups,omitempty"`
	Resources       []string `json:"resources,omitempty"`
	ResourceNames   []string `json:"resourceNames,omitempty"`
	NonResourceURLs []string `json:"nonResourceURLs,omitempty"`
	Verbs           []string `json:"verbs"`
}

// rights are verbs, by group/resource.
type rights map[string]map[string]bool

func (r rights) add(group, resource string, verbs ...string) {
	key := group + "/" + resource
	if r[key] == nil {
		r[key] = map[string]bool{}
	}
	for _, v := range verbs {
		r[key][v] = true
	}
}

func (r rights) addRule(t *testing.T, where string, one rule) {
	t.Helper()
	if len(one.NonResourceURLs) > 0 || slices.Contains(slices.Concat(one.APIGroups, one.Resources, one.Verbs), "*") {
		t.Errorf("%s: rule %+v has a wildcard or URLs, which the orchestrator must not get", where, one)
	}
	for _, group := range one.APIGroups {
		for _, resource := range one.Resources {
			// A rule for some names is covered by one for all names.
			r.add(group, resource, one.Verbs...)
		}
	}
}

// resourceOf returns the resource of a kind, as the API server names it.
func resourceOf(kind string) string {
	name := strings.ToLower(kind)
	switch {
	case strings.HasSuffix(name, "y"):
		return strings.TrimSuffix(name, "y") + "ies"
	case strings.HasSuffix(name, "s"):
		return name + "es"
	default:
		return name + "s"
	}
}

// applied returns the objects that the charts of all agents render, with all values in
// testdata, by the path of the variant.
func applied(t *testing.T) map[string][]object {
	t.Helper()
	found := map[string][]object{}
	for _, chart := range names(t) {
		if chart == "orchestrator" {
			continue
		}
		for _, v := range variants(t, chart) {
			for document := range strings.SplitSeq(v.objects, "\n---\n") {
				var o object
				if err := yaml.Unmarshal([]byte(document), &o); err != nil {
					t.Fatalf("%s: %v", v.path(), err)
				}
				// Helm installs the orchestrator and its policy. The orchestrator creates pods of the
				// PodTemplates instead.
				byHelm := strings.Contains(document, "# Source: outrigger/charts/operator/") || o.Kind == "ClusterPolicy"
				if o.Kind != "" && o.Kind != "PodTemplate" && !byHelm {
					found[v.path()] = append(found[v.path()], o)
				}
			}
		}
	}
	return found
}

// needed returns the rights that the orchestrator uses: to apply each kind that the charts render,
// and what it does itself; those that it only gives to agents, because Kubernetes lets nobody give
// what he lacks; and the resources in a namespace that it uses.
func needed(t *testing.T) (use, give rights, inNamespace []string) {
	t.Helper()
	use, give = rights{}, rights{}
	namespaced := map[string]bool{"pods": true}
	for file, objects := range applied(t) {
		for _, o := range objects {
			group, _, grouped := strings.Cut(o.APIVersion, "/")
			if !grouped {
				group = ""
			}
			use.add(group, resourceOf(o.Kind), "get", "list", "watch", "create", "patch", "delete")
			if o.Metadata.Namespace != "" {
				namespaced[resourceOf(o.Kind)] = true
			}
			for _, one := range o.Rules {
				give.addRule(t, file+": "+o.Kind+" "+o.Metadata.Name, one)
			}
		}
	}
	use.add("", "namespaces", "get", "list", "watch", "create", "patch", "delete")
	use.add("", "nodes", "get", "list", "watch")
	// Those of validations.
	use.add("", "pods", "get", "list", "watch", "create", "delete")
	use.add("", "configmaps", "get", "list", "watch", "create", "patch", "delete")
	use.add("", "events", "create", "patch")
	// A namespace in which others have some stays.
	use.add("", "persistentvolumeclaims", "list")
	use.add("outrigger.dev", "clusterpolicies", "get", "list", "watch", "patch", "update", "delete")
	use.add("outrigger.dev", "clusterpolicies/status", "patch", "update")
	use.add("outrigger.dev", "clusterpolicies/finalizers", "update")
	return use, give, slices.Sorted(maps.Keys(namespaced))
}

// and returns the rights of both.
func (r rights) and(others rights) rights {
	both := rights{}
	for _, some := range []rights{r, others} {
		for key, verbs := range some {
			group, resource, _ := strings.Cut(key, "/")
			both.add(group, resource, slices.Collect(maps.Keys(verbs))...)
		}
	}
	return both
}

// operations are those that the API server asks admission policies about, by verb.
var operations = map[string]string{"create": "CREATE", "update": "UPDATE", "patch": "UPDATE", "delete": "DELETE"}

// writes returns the rights to write that others lack, as resource rules of an admission policy.
func (r rights) writes(others rights) string {
	asked := func(verbs map[string]bool) []string {
		var out []string
		for verb := range verbs {
			if operation, writes := operations[verb]; writes {
				out = append(out, operation)
			}
		}
		slices.Sort(out)
		return slices.Compact(out)
	}
	var out strings.Builder
	for _, key := range slices.Sorted(maps.Keys(r)) {
		theirs := asked(others[key])
		left := slices.DeleteFunc(asked(r[key]), func(operation string) bool { return slices.Contains(theirs, operation) })
		if group, resource, _ := strings.Cut(key, "/"); len(left) > 0 {
			fmt.Fprintf(&out, "- apiGroups: [%q]\n  apiVersions: [\"*\"]\n  operations: [%s]\n  resources: [%s]\n", group, strings.Join(left, ", "), resource)
		}
	}
	return out.String()
}

// rules returns rights as rules of a Role, in a fixed order: one for the resources of a group
// that have the same verbs.
func (r rights) rules() []rule {
	order := []string{"get", "list", "watch", "create", "update", "patch", "delete"}
	resources := map[string][]string{}
	verbs := map[string][]string{}
	for _, key := range slices.Sorted(maps.Keys(r)) {
		group, resource, _ := strings.Cut(key, "/")
		sorted := slices.SortedFunc(maps.Keys(r[key]), func(a, b string) int {
			return cmp.Or(cmp.Compare(slices.Index(order, a), slices.Index(order, b)), cmp.Compare(a, b))
		})
		class := group + " " + strings.Join(sorted, ",")
		resources[class], verbs[class] = append(resources[class], resource), sorted
	}
	var out []rule
	for _, class := range slices.Sorted(maps.Keys(resources)) {
		group, _, _ := strings.Cut(class, " ")
		out = append(out, rule{APIGroups: []string{group}, Resources: resources[class], Verbs: verbs[class]})
	}
	return out
}

// TestTheOrchestratorsRoleIsWhatTheChartsNeed compares the template with the role of the
// orchestrator with what all charts need, no less and no more. -update writes it.
func TestTheOrchestratorsRoleIsWhatTheChartsNeed(t *testing.T) {
	use, give, namespaced := needed(t)
	var out strings.Builder
	out.WriteString("{{- /* Written by: go test ./... -update, from what the other charts render. */ -}}\n")
	out.WriteString("{{- define \"orchestrator.rules\" -}}\n")
	for _, one := range use.and(give).rules() {
		fmt.Fprintf(&out, "- apiGroups: [%q]\n  resources: [%s]\n  verbs: [%s]\n", one.APIGroups[0], strings.Join(one.Resources, ", "), strings.Join(one.Verbs, ", "))
	}
	// "create" cannot be limited to a name.
	out.WriteString("- apiGroups: [apiextensions.k8s.io]\n  resources: [customresourcedefinitions]\n  verbs: [create]\n")
	out.WriteString("- apiGroups: [apiextensions.k8s.io]\n  resources: [customresourcedefinitions]\n  resourceNames: [clusterpolicies.outrigger.dev]\n  verbs: [get, patch]\n")
	out.WriteString("{{- end -}}\n\n{{- /* The resources among them that are in a namespace. */ -}}\n")
	fmt.Fprintf(&out, "{{- define \"orchestrator.namespaced\" -}}\n[%s]\n{{- end -}}\n", strings.Join(namespaced, ", "))
	out.WriteString("\n{{- /* What agents may write, and the orchestrator does not. */ -}}\n")
	fmt.Fprintf(&out, "{{- define \"orchestrator.given\" -}}\n%s{{- end -}}\n", give.writes(use))
	compareGolden(t, "orchestrator/templates/_rules.tpl", out.String())
}

// TestTheOrchestratorCannotEscalate finds rights by which the orchestrator could give itself
// or others more than it has.
func TestTheOrchestratorCannotEscalate(t *testing.T) {
	out, err := release{chart: "orchestrator"}.render()
	if err != nil {
		t.Fatal(err)
	}
	roles := 0
	for document := range strings.SplitSeq(out, "\n---\n") {
		var o object
		if err := yaml.Unmarshal([]byte(document), &o); err != nil {
			t.Fatal(err)
		}
		for _, one := range o.Rules {
			roles++
			for _, v := range one.Verbs {
				if slices.Contains([]string{"*", "escalate", "bind", "impersonate", "approve", "sign", "deletecollection"}, v) {
					t.Errorf("%s %s: verb %s", o.Kind, o.Metadata.Name, v)
				}
			}
			for _, r := range one.Resources {
				if strings.Contains(r, "*") || slices.Contains([]string{"secrets", "pods/exec", "pods/attach", "serviceaccounts/token", "nodes/proxy"}, r) {
					t.Errorf("%s %s: resource %s", o.Kind, o.Metadata.Name, r)
				}
			}
		}
	}
	if roles == 0 {
		t.Error("the chart renders no rule")
	}
}
