package charts_test

import (
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// granted is what the test reads of rights, and of what restricts them.
type granted struct {
	Kind     string
	Metadata struct{ Name, Namespace string }
	Rules    []rule
	RoleRef  struct{ Kind, Name string }
	Subjects []struct{ Name string }
	Spec     struct {
		MatchConditions  []struct{ Expression string }
		MatchConstraints struct {
			ResourceRules []struct{ APIGroups, Operations, Resources []string }
		}
	}
}

// unrestricted are the renderings whose values have admissionPolicy.create=false.
var unrestricted = map[string]bool{"testdata/feature-discovery/labels-alone": true}

// TestAPolicyLooksAtEachWriteOfAnAgent finds rights of agents to write objects at which no admission
// policy looks: with RBAC alone, a token stolen from one node could write those of all nodes.
func TestAPolicyLooksAtEachWriteOfAnAgent(t *testing.T) {
	found := 0
	for _, chart := range names(t) {
		for _, v := range variants(t, chart) {
			var objects []granted
			for document := range strings.SplitSeq(v.objects, "\n---\n") {
				// The orchestrator's own policies are compared with its role elsewhere.
				if strings.Contains(document, "/templates/rbac.yaml") || strings.Contains(document, "# Source: orchestrator/") {
					continue
				}
				var o granted
				if err := yaml.Unmarshal([]byte(document), &o); err != nil {
					t.Fatalf("%s: %v", v.path(), err)
				}
				objects = append(objects, o)
			}
			looked := lookedAt(objects)
			for _, right := range writesOf(objects) {
				found++
				if !looked[right] && !unrestricted[v.path()] {
					t.Errorf("%s: no policy looks at %s", v.path(), right)
				}
			}
		}
	}
	if found < 50 {
		t.Errorf("only %d rights to write were found", found)
	}
}

// lookedAt returns what policies look at, as "account operation group/resource".
func lookedAt(objects []granted) map[string]bool {
	looked := map[string]bool{}
	for _, o := range objects {
		for _, m := range o.Spec.MatchConditions {
			user := strings.Split(strings.Trim(m.Expression[strings.Index(m.Expression, "'"):], "'"), ":")
			for _, r := range o.Spec.MatchConstraints.ResourceRules {
				for _, resource := range r.Resources {
					for _, operation := range r.Operations {
						looked[user[len(user)-1]+" "+operation+" "+r.APIGroups[0]+"/"+resource] = true
					}
				}
			}
		}
	}
	return looked
}

// writesOf returns the rights to write that are bound to accounts, in the same form.
func writesOf(objects []granted) (out []string) {
	for _, binding := range objects {
		for _, role := range objects {
			if binding.RoleRef.Name != role.Metadata.Name || binding.RoleRef.Kind != role.Kind || binding.Metadata.Namespace != role.Metadata.Namespace {
				continue
			}
			for _, r := range role.Rules {
				for _, verb := range r.Verbs {
					for _, resource := range r.Resources {
						if operation, writes := operations[verb]; writes {
							out = append(out, binding.Subjects[0].Name+" "+operation+" "+r.APIGroups[0]+"/"+resource)
						}
					}
				}
			}
		}
	}
	return out
}
