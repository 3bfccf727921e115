package charts_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// TestPodsFindTheirObjects checks each chart alone and the umbrella: each ConfigMap, Secret and ServiceAccount that a pod names is
// rendered by the same chart, or the user has named it.
func TestPodsFindTheirObjects(t *testing.T) {
	for _, chart := range names(t) {
		for name, v := range variants(t, chart) {
			for _, missing := range missingObjects(t, v.objects, v.values) {
				t.Errorf("%s: %s", name, missing)
			}
		}
		for text, values := range withObjects() {
			objects, err := release{chart: chart, values: clone(t, values)}.render()
			if err != nil {
				if !strings.Contains(err.Error(), "additional properties") && !strings.Contains(err.Error(), "got object, want null or string") {
					t.Errorf("%s: %s: %v", chart, text, err)
				}
				continue
			}
			for _, missing := range missingObjects(t, objects, values) {
				t.Errorf("%s: %s: %s", chart, text, missing)
			}
		}
	}
}

// withObjects returns values that a chart makes objects of.
func withObjects() map[string]map[string]any {
	text := map[string]any{"any": "version: v1\n"}
	return map[string]map[string]any{
		"configs of all agents":            {"global": map[string]any{"config": map[string]any{"map": text}}},
		"configs of all agents with names": {"global": map[string]any{"config": map[string]any{"map": text, "default": "any"}}},
		"configs":                          {"config": map[string]any{"map": text}},
		"configs of NVIDIA's operator":     {"config": map[string]any{"create": true, "name": "made", "data": map[string]any{"config.yaml": "version: v1\n"}}},
		"an account":                       {"serviceAccount": map[string]any{"create": true, "name": "made"}},
		"Helm's secrets":                   {"global": map[string]any{"imagePullSecrets": []any{"named"}}, "imagePullSecrets": []any{map[string]any{"name": "named-too"}}},
	}
}

// clone returns a copy of values.
func clone(t *testing.T, values map[string]any) map[string]any {
	t.Helper()
	text, err := yaml.Marshal(values)
	if err != nil {
		t.Fatal(err)
	}
	copied := map[string]any{}
	if err := yaml.Unmarshal(text, &copied); err != nil {
		t.Fatal(err)
	}
	return copied
}

// missingObjects returns the objects that pods name, and that neither the chart nor the user makes.
func missingObjects(t *testing.T, objects string, values map[string]any) []string {
	t.Helper()
	made, named := map[string]bool{}, map[string]bool{}
	userNames(values, named)
	type user struct {
		name, namespace string
		spec            corev1.PodSpec
	}
	var users []user
	for document := range strings.SplitSeq(objects, "\n---\n") {
		var o struct {
			Kind     string
			Metadata struct{ Name, Namespace string }
		}
		decode(t, document, &o)
		made[o.Kind+" "+o.Metadata.Namespace+"/"+o.Metadata.Name] = true
		if spec := podSpec(t, o.Kind, document); spec != nil {
			users = append(users, user{o.Kind + " " + o.Metadata.Name, o.Metadata.Namespace, *spec})
		}
	}
	var missing []string
	for _, u := range users {
		for ref := range references(u.spec) {
			kind, name, _ := strings.Cut(ref, " ")
			if !made[kind+" "+u.namespace+"/"+name] && !named[name] && ref != "ServiceAccount default" {
				missing = append(missing, u.name+" in "+u.namespace+" names the "+ref+", which nobody makes")
			}
		}
	}
	slices.Sort(missing)
	return missing
}

func decode(t *testing.T, document string, into any) {
	t.Helper()
	if err := yaml.Unmarshal([]byte(document), into); err != nil {
		t.Fatalf("%v:\n%s", err, document)
	}
}

// podSpec returns the spec of the pods of an object, or nil.
func podSpec(t *testing.T, kind, document string) *corev1.PodSpec {
	t.Helper()
	switch kind {
	case "DaemonSet":
		var o appsv1.DaemonSet
		decode(t, document, &o)
		return &o.Spec.Template.Spec
	case "Deployment":
		var o appsv1.Deployment
		decode(t, document, &o)
		return &o.Spec.Template.Spec
	case "Job":
		var o batchv1.Job
		decode(t, document, &o)
		return &o.Spec.Template.Spec
	case "Pod":
		var o corev1.Pod
		decode(t, document, &o)
		return &o.Spec
	}
	return nil
}

// references returns the objects that a pod needs, as "KIND NAME".
func references(spec corev1.PodSpec) map[string]bool {
	found := map[string]bool{}
	need := func(kind, name string, optional *bool) {
		if name != "" && (optional == nil || !*optional) {
			found[kind+" "+name] = true
		}
	}
	need("ServiceAccount", spec.ServiceAccountName, nil)
	for _, s := range spec.ImagePullSecrets {
		need("Secret", s.Name, nil)
	}
	for _, v := range spec.Volumes {
		sources := []corev1.VolumeProjection{}
		if v.Projected != nil {
			sources = v.Projected.Sources
		}
		if v.ConfigMap != nil {
			need("ConfigMap", v.ConfigMap.Name, v.ConfigMap.Optional)
		}
		if v.Secret != nil {
			need("Secret", v.Secret.SecretName, v.Secret.Optional)
		}
		for _, s := range sources {
			if s.ConfigMap != nil {
				need("ConfigMap", s.ConfigMap.Name, s.ConfigMap.Optional)
			}
			if s.Secret != nil {
				need("Secret", s.Secret.Name, s.Secret.Optional)
			}
		}
	}
	for _, c := range slices.Concat(spec.InitContainers, spec.Containers) {
		for _, e := range c.EnvFrom {
			if e.ConfigMapRef != nil {
				need("ConfigMap", e.ConfigMapRef.Name, e.ConfigMapRef.Optional)
			}
			if e.SecretRef != nil {
				need("Secret", e.SecretRef.Name, e.SecretRef.Optional)
			}
		}
		for _, e := range c.Env {
			if e.ValueFrom != nil && e.ValueFrom.ConfigMapKeyRef != nil {
				need("ConfigMap", e.ValueFrom.ConfigMapKeyRef.Name, e.ValueFrom.ConfigMapKeyRef.Optional)
			}
			if e.ValueFrom != nil && e.ValueFrom.SecretKeyRef != nil {
				need("Secret", e.ValueFrom.SecretKeyRef.Name, e.ValueFrom.SecretKeyRef.Optional)
			}
		}
	}
	return found
}

// userNames adds all texts in values. A user who asks the chart to make an object by a name does not make it.
func userNames(value any, into map[string]bool) {
	switch value := value.(type) {
	case string:
		into[value] = true
	case []any:
		for _, item := range value {
			userNames(item, into)
		}
	case map[string]any:
		below := maps.Clone(value)
		if below["create"] == true {
			delete(below, "name")
		}
		for _, item := range below {
			userNames(item, into)
		}
	}
}
