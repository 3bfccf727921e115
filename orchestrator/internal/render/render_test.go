package render_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"outrigger.dev/charts"
	"outrigger.dev/orchestrator/internal/model"
	"outrigger.dev/orchestrator/internal/pools"
	"outrigger.dev/orchestrator/internal/render"
)

func config(values map[string]any) render.Config {
	return render.Config{Release: charts.Release{Name: "gpu", Namespace: "gpu-operator", Kubernetes: "v1.36.0", Values: values}}
}

func stages(t *testing.T, values map[string]any) []model.Stage {
	t.Helper()
	all, err := render.Stages(config(values))
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestStagesComeAfterThoseTheyNeed(t *testing.T) {
	var before []string
	for _, s := range stages(t, nil) {
		for _, need := range s.Needs {
			if !slices.Contains(before, need) {
				t.Errorf("%s comes before %s, which it needs", s.Name, need)
			}
		}
		before = append(before, s.Name)
	}
	if !slices.Contains(before, "device-plugin") {
		t.Errorf("stages are %q", before)
	}
}

func TestEveryObjectIsMarked(t *testing.T) {
	for _, s := range stages(t, nil) {
		for _, o := range s.Objects {
			if got := o.GetLabels()[render.ManagedBy]; got != model.FieldManager {
				t.Errorf("%s has the label %s=%q", model.RefOf(o), render.ManagedBy, got)
			}
		}
	}
}

func TestTheSameValuesRenderTheSame(t *testing.T) {
	first, second := stages(t, nil), stages(t, nil)
	for i := range first {
		for j, o := range first[i].Objects {
			if model.Hash(o) != model.Hash(second[i].Objects[j]) {
				t.Errorf("%s differs", model.RefOf(o))
			}
		}
	}
}

func TestAValueThatTheChartsRejectIsNamed(t *testing.T) {
	_, err := render.Stages(config(map[string]any{"devicePlugin": map[string]any{"migStrategi": "none"}}))
	if err == nil || !strings.Contains(err.Error(), "migStrategi") {
		t.Errorf("error is %v, want one that names migStrategi", err)
	}
}

const manifest = `
apiVersion: v1
kind: PodTemplate
metadata:
  name: proof
  annotations: {outrigger.dev/validates: device-plugin, outrigger.dev/validate-nodes: 10%}
template: {spec: {activeDeadlineSeconds: 90}}
---
# Nothing.
---
apiVersion: v1
kind: ConfigMap
metadata: {name: other}
`

func TestValidationsMoveToTheirStage(t *testing.T) {
	first, second := validated(t, ""), validated(t, "now")
	if len(first[0].Validations) != 1 || len(first[1].Objects) != 1 {
		t.Fatalf("stages are %+v", first)
	}
	if got := first[0].Validations[0]; got.Name != "proof" || got.Nodes != "10%" || got.Timeout != 90*time.Second || got.Revision == "" {
		t.Errorf("the validation is %+v", got)
	}
	if first[0].Validations[0].Revision == second[0].Validations[0].Revision {
		t.Error("a new value of the annotation does not repeat the validation")
	}
}

func TestAnnotationsSayWhereAndWithWhichTestsAValidationRuns(t *testing.T) {
	run := func(r model.Repetition) model.Check {
		values := map[string]any{"validator": map[string]any{"enabled": true}}
		cfg := config(values)
		cfg.Validate = r
		all, err := render.Stages(cfg)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range all {
			if s.Name == "device-plugin" {
				return s.Validations[0]
			}
		}
		t.Fatal("no stage device-plugin")
		return model.Check{}
	}
	env := func(c model.Check) (names []string) {
		spec, err := c.PodSpec()
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range spec.Containers[0].Env {
			names = append(names, v.Name+"="+v.Value)
		}
		return names
	}
	usual := run(model.Repetition{Text: "a"})
	for name, tc := range map[string]struct {
		ask   model.Repetition
		nodes string
		only  []string
		env   []string
	}{
		"nothing":         {model.Repetition{Text: "a"}, "1", nil, nil},
		"all nodes":       {model.Repetition{Text: "a", On: "all"}, "all", nil, nil},
		"two nodes":       {model.Repetition{Text: "a", On: "n1,n2"}, "all", []string{"n1", "n2"}, nil},
		"more tests":      {model.Repetition{Text: "a", With: "copies,all-gpus"}, "1", nil, []string{"VECTORADD_COPIES=true", "VECTORADD_ALL_DEVICES=true"}},
		"an unknown test": {model.Repetition{Text: "a", With: "rm"}, "1", nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			got := run(tc.ask)
			if got.Nodes != tc.nodes || !slices.Equal(got.Only, tc.only) || !slices.Equal(env(got), append(env(usual), tc.env...)) {
				t.Errorf("the validation runs on %s %v with %v", got.Nodes, got.Only, env(got))
			}
			if got.Revision != usual.Revision {
				t.Error("the end of the request would repeat the validation")
			}
		})
	}
}

// validated returns a stage and its validation.
func validated(t *testing.T, annotation string) []model.Stage {
	t.Helper()
	objects, err := render.Objects(manifest)
	if err != nil {
		t.Fatal(err)
	}
	all := []model.Stage{{Name: "device-plugin"}, {Name: "validator", Objects: objects}}
	render.Attach(all, model.Repetition{Text: annotation})
	return all
}

func TestTextThatIsNoObjectIsRejected(t *testing.T) {
	for name, text := range map[string]string{"no kind": "a: b", "a list": "[1]", "bad YAML": "a: [", "no name": "kind: Pod"} {
		if _, err := render.Objects(text); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// A validation is repeated if its stage or a stage that it needs changes, and for nothing else.
func TestTheRevisionOfAValidation(t *testing.T) {
	revisions := func(values map[string]any) map[string]string {
		values["validator"] = map[string]any{"enabled": true}
		out := map[string]string{}
		for _, s := range stages(t, values) {
			for _, check := range s.Validations {
				out[s.Name] = check.Revision
			}
		}
		return out
	}
	labels := map[string]any{"podLabels": map[string]any{"example.com/a": "b"}}
	before := revisions(map[string]any{})
	if before["container-toolkit"] == "" || before["device-plugin"] == "" {
		t.Fatalf("the revisions are %v", before)
	}
	for key, want := range map[string][]string{
		"gfd": nil, "dcgmExporter": nil, "migManager": nil, "devicePlugin": {"device-plugin"}, "toolkit": {"container-toolkit", "device-plugin"},
	} {
		var got []string
		for stage, revision := range revisions(map[string]any{key: labels}) {
			if revision != before[stage] {
				got = append(got, stage)
			}
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("a change of %s repeats the validations of %q, want %q", key, got, want)
		}
	}
}

// A new kernel is no reason to repeat validations, and another driver is.
func TestTheRevisionDoesNotDependOnTheKindsOfNodes(t *testing.T) {
	revision := func(version string, kernels ...string) string {
		cfg := config(map[string]any{"driver": map[string]any{"enabled": true, "repository": "r.example.org", "version": version, "usePrecompiled": true}})
		cfg.Kinds = pools.Kinds{}
		for _, kernel := range kernels {
			cfg.Kinds[""] = append(cfg.Kinds[""], charts.Node{Kernel: kernel, ID: "ubuntu", Version: "22.04"})
		}
		list, err := render.Stages(cfg)
		if err != nil {
			t.Fatal(err)
		}
		at := slices.IndexFunc(list, func(s model.Stage) bool { return s.Name == "container-toolkit" })
		return list[at].Validations[0].Revision
	}
	before := revision("580", "a")
	if got := revision("580", "a", "b"); got != before {
		t.Error("a node with another kernel repeats the validations")
	}
	if got := revision("580", "b"); got != before {
		t.Error("another kernel repeats the validations")
	}
	if got := revision("590", "a"); got == before {
		t.Error("another driver does not repeat the validations")
	}
}
