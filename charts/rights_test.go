package charts_test

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"outrigger.dev/charts"
)

// rule is a rule of a Role.
type rule struct {
	APIGroups       []string `json:"apiGroups,omitempty"`
	Resources       []string `json:"resources,omitempty"`
	ResourceNames   []string `json:"resourceNames,omitempty"`
	NonResourceURLs []string `json:"nonResourceURLs,omitempty"`
	Verbs           []string `json:"verbs"`
}

// operations are those that the API server asks admission policies about, by verb.
var operations = map[string]string{"create": "CREATE", "update": "UPDATE", "patch": "UPDATE", "delete": "DELETE"}

// orchestratorRights returns the rules that are bound to the account of the orchestrator, by the namespace of
// their Role, which is "" for the whole cluster.
func orchestratorRights(t *testing.T, v variant) map[string][]rule {
	t.Helper()
	var objects []granted
	for document := range strings.SplitSeq(v.objects, "\n---\n") {
		var o granted
		if err := yaml.Unmarshal([]byte(document), &o); err != nil {
			t.Fatalf("%s: %v", v.path(), err)
		}
		objects = append(objects, o)
	}
	found := map[string][]rule{}
	for _, binding := range objects {
		if len(binding.Subjects) == 0 || !strings.HasSuffix(binding.Subjects[0].Name, "orchestrator") {
			continue
		}
		for _, role := range objects {
			if role.Kind == binding.RoleRef.Kind && role.Metadata.Name == binding.RoleRef.Name && role.Metadata.Namespace == binding.Metadata.Namespace {
				found[role.Metadata.Namespace] = append(found[role.Metadata.Namespace], role.Rules...)
			}
		}
	}
	return found
}

// unnamed are the resources that the orchestrator may write under any name, with the verbs.
var unnamed = map[string][]string{
	"pods":                       {"create", "delete"},
	"events":                     {"create"},
	"clusterpolicies":            {"update", "patch", "delete"},
	"clusterpolicies/status":     {"update", "patch"},
	"clusterpolicies/finalizers": {"update"},
	// The policy of the workloads permits this only for objects that the orchestrator has applied.
	"configmaps": {"delete"}, "daemonsets": {"delete"}, "deployments": {"delete"}, "networkpolicies": {"delete"},
	"podmonitors": {"delete"}, "prometheusrules": {"delete"}, "servicemonitors": {"delete"}, "services": {"delete"},
}

// limitsNames is a part of the policy of the workloads if the names of some DaemonSets follow from the nodes.
const limitsNames = "variables.deletes || request.resource.resource != 'daemonsets' || request.namespace != 'gpu-operator-resources' ||"

// TestTheOrchestratorCannotEscalate finds rights by which the orchestrator could give itself or others
// more than it has, with all values in testdata.
func TestTheOrchestratorCannotEscalate(t *testing.T) {
	found := 0
	for _, v := range variants(t, "outrigger") {
		for namespace, rules := range orchestratorRights(t, v) {
			for _, r := range rules {
				found++
				if slices.Equal(r.Resources, []string{"daemonsets"}) && strings.Contains(v.objects, limitsNames) {
					r.ResourceNames = append(r.ResourceNames, "names that the policy of the workloads permits")
				}
				checkRule(t, v.path(), namespace, r)
			}
		}
	}
	if found < 50 {
		t.Errorf("only %d rules were found", found)
	}
}

// clusterWide are the resources that the orchestrator uses in the whole cluster.
var clusterWide = []string{"nodes", "pods", "clusterpolicies", "clusterpolicies/finalizers", "clusterpolicies/status", "customresourcedefinitions", "nvidiadrivers", "gpuclusters"}

func checkRule(t *testing.T, path, namespace string, r rule) {
	t.Helper()
	wrong := func(why string) { t.Errorf("%s: namespace %q: %+v: %s", path, namespace, r, why) }
	if len(r.NonResourceURLs) > 0 || slices.Contains(slices.Concat(r.APIGroups, r.Resources, r.Verbs), "*") {
		wrong("it has a wildcard or URLs")
	}
	for _, resource := range r.Resources {
		switch {
		case namespace == "" && !slices.Contains(clusterWide, resource):
			wrong("it is for the whole cluster")
		case namespace == "" && resource == "pods" && !slices.Equal(r.Verbs, []string{"list"}), resource == "nodes" && slices.Contains(r.Verbs, "patch"):
			wrong("it writes in the whole cluster")
		case slices.Contains([]string{"secrets", "serviceaccounts", "pods/exec", "pods/attach", "pods/ephemeralcontainers", "nodes/proxy"}, resource):
			wrong("it uses a dangerous resource")
		case slices.ContainsFunc(r.APIGroups, func(g string) bool {
			return slices.Contains([]string{"rbac.authorization.k8s.io", "admissionregistration.k8s.io", "node.k8s.io", "resource.k8s.io"}, g)
		}):
			wrong("the Helm release has the objects of this group")
		}
		for _, verb := range r.Verbs {
			if operations[verb] != "" && len(r.ResourceNames) == 0 && !slices.Contains(unnamed[resource], verb) {
				wrong("it writes objects of all names")
			}
			if operations[verb] == "" && !slices.Contains([]string{"get", "list", "watch"}, verb) {
				wrong("verb " + verb)
			}
		}
	}
}

// rightsTable returns the rights of the orchestrator as rows of a table.
func rightsTable(t *testing.T, v variant) string {
	t.Helper()
	var rows []string
	for namespace, rules := range orchestratorRights(t, v) {
		where := map[string]string{"": "the cluster", "default": "`default`", "gpu-operator": "its own namespace", "gpu-operator-resources": "the agents' namespace"}[namespace]
		if where == "" {
			t.Errorf("the table has no words for the namespace %s", namespace)
		}
		for _, r := range rules {
			names := "all"
			switch {
			case len(r.ResourceNames) == 1 && namespace != "gpu-operator-resources":
				names = "`" + r.ResourceNames[0] + "`"
			case len(r.ResourceNames) > 0:
				names = "the names in the release"
			case slices.Contains(r.Verbs, "delete") && namespace == "gpu-operator-resources":
				names = "all; `delete` only what it has applied"
			}
			for _, resource := range r.Resources {
				if slices.Equal(r.APIGroups, []string{"nvidia.com"}) {
					resource += ".nvidia.com"
				}
				rows = append(rows, fmt.Sprintf("| %s | `%s` | %s | `%s` |\n", where, resource, names, strings.Join(r.Verbs, "`, `")))
			}
		}
	}
	slices.SortFunc(rows, func(a, b string) int {
		return cmp.Or(cmp.Compare(strings.Count(a, "the cluster"), strings.Count(b, "the cluster"))*-1, cmp.Compare(a, b))
	})
	return "| Where | Resource | Names | Verbs |\n|---|---|---|---|\n" + strings.Join(slices.Compact(rows), "")
}

// TestTheSecurityPageHasTheRightsOfTheOrchestrator compares the table in SECURITY.md with the roles that the
// chart renders, with all kinds of objects. -update writes it.
func TestTheSecurityPageHasTheRightsOfTheOrchestrator(t *testing.T) {
	const begin, end = "<!-- the rights of the orchestrator: go test ./charts -update -->\n", "<!-- end -->\n"
	text, err := os.ReadFile("../SECURITY.md")
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(text), begin)
	_, after, ends := strings.Cut(rest, end)
	if !found || !ends {
		t.Fatalf("SECURITY.md has no place for the table: %q and %q", begin, end)
	}
	v := variant{chart: "outrigger", name: "every-kind", values: valuesOf(t, "testdata/outrigger/every-kind.values.yaml")}
	v.objects = v.render(t)
	compareGolden(t, "../SECURITY.md", before+begin+"\n"+rightsTable(t, v)+"\n"+end+after)
}

// TestTheReleaseKindsAreInTheTemplate compares the kinds in the template with the kinds that the orchestrator
// leaves to Helm.
func TestTheReleaseKindsAreInTheTemplate(t *testing.T) {
	text, err := os.ReadFile("outrigger/templates/_rights.tpl")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), `{{- define "outrigger.releaseKinds" -}}`)
	list, _, _ := strings.Cut(rest, "{{- end -}}")
	var kinds map[string][]string
	if err := yaml.Unmarshal([]byte(list), &kinds); err != nil || len(kinds["rights"]) == 0 {
		t.Fatalf("the kinds of the template are %v, %v", kinds, err)
	}
	for _, kind := range slices.Concat(kinds["rights"], kinds["shared"]) {
		if !charts.InRelease(kind) {
			t.Errorf("the orchestrator applies the kind %s, which Helm installs", kind)
		}
	}
}
