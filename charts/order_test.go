package charts

import (
	"path"
	"path/filepath"
	"strings"
	"testing"

	releaseutil "helm.sh/helm/v4/pkg/release/v1/util"
	"sigs.k8s.io/yaml"

	"outrigger.dev/charts/chartstest"
)

// created is what a test reads of an object.
type created struct {
	Kind     string
	Metadata struct{ Name string }
	Subjects []struct{ Name, Namespace string }
	Spec     struct {
		PolicyName      string
		MatchConditions []struct{ Expression string }
	}
	Items []created
}

// inHelmsOrder returns the objects of a release in the order in which "helm install" creates
// them: Helm sorts what the templates render by kind, and then takes Lists apart.
func inHelmsOrder(t *testing.T, name string, values map[string]any) []created {
	t.Helper()
	c, err := Load(name)
	if err != nil {
		t.Fatal(err)
	}
	files, err := execute(c, Release{Name: "outrigger", Namespace: "gpus", Kubernetes: "1.37.0", Values: chartstest.WithRegistry(values)})
	if err != nil {
		t.Fatal(err)
	}
	for file := range files {
		if path.Base(file) == "NOTES.txt" {
			delete(files, file)
		}
	}
	_, manifests, err := releaseutil.SortManifests(files, nil, releaseutil.InstallOrder)
	if err != nil {
		t.Fatal(err)
	}
	var objects []created
	for _, m := range manifests {
		var object created
		if err := yaml.Unmarshal([]byte(m.Content), &object); err != nil {
			t.Fatalf("%s: %v", m.Name, err)
		}
		if object.Kind == "List" {
			objects = append(objects, object.Items...)
			continue
		}
		objects = append(objects, object)
	}
	return objects
}

// TestHelmCreatesPoliciesBeforeRights finds an account to which Helm gives rights before the
// policies exist that restrict them.
func TestHelmCreatesPoliciesBeforeRights(t *testing.T) {
	policies := map[string]int{"device-plugin": 1, "dra-plugin": 1, "driver-loader": 5, "feature-discovery": 3, "gpu-sim": 1, "mig-manager": 2, "orchestrator": 2, "outrigger": 6}
	charts, err := filepath.Glob("*/Chart.yaml")
	if err != nil || len(charts) < len(policies) {
		t.Fatalf("find charts: %v, %v", charts, err)
	}
	for _, chart := range charts {
		name := filepath.Dir(chart)
		t.Run(name, func(t *testing.T) {
			bound, expressions, inForce := map[string]bool{}, map[string]string{}, 0
			values := map[string]any{}
			if name == umbrella {
				values["orchestrator"] = map[string]any{"enabled": false}
			}
			for _, object := range inHelmsOrder(t, name, values) {
				switch object.Kind {
				case "ClusterRoleBinding", "RoleBinding":
					for _, s := range object.Subjects {
						bound["'system:serviceaccount:"+s.Namespace+":"+s.Name+"'"] = true
					}
				case "ValidatingAdmissionPolicy":
					expressions[object.Metadata.Name] = object.Spec.MatchConditions[0].Expression
				case "ValidatingAdmissionPolicyBinding":
					inForce++
					for account := range bound {
						if strings.Contains(expressions[object.Spec.PolicyName], account) {
							t.Errorf("%s has rights before the policy %s is in force", account, object.Spec.PolicyName)
						}
					}
				}
			}
			if inForce != policies[name] || len(expressions) != policies[name] || policies[name] > 0 && len(bound) == 0 {
				t.Errorf("%d policies, %d in force, want %d; accounts with rights: %v", len(expressions), inForce, policies[name], bound)
			}
		})
	}
}
