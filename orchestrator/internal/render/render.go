// Package render renders values into the objects of all stages. It does no I/O: the charts, which
// define every object, are embedded in the program.
package render

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"

	"outrigger.dev/charts"
	"outrigger.dev/orchestrator/internal/model"
	"outrigger.dev/orchestrator/internal/pools"
)

// ManagedBy is the label that the orchestrator uses to find its objects. In an installation with
// Helm, the charts set it to "Helm".
const ManagedBy = "app.kubernetes.io/managed-by"

// annotationValidates marks a PodTemplate as a validation, and names the stage that it validates.
const annotationValidates = "outrigger.dev/validates"

// annotationNodes is the annotation with the number of nodes that validate a stage: "1", "10%" or
// "all".
const annotationNodes = "outrigger.dev/validate-nodes"

// defaultTimeout is the time limit of a validation pod whose template has no activeDeadlineSeconds.
const defaultTimeout = 5 * time.Minute

// Config holds the input of Stages. The objects get the same names as in a Helm release with the
// name Release.Name. Release.Namespace is the namespace of the orchestrator.
type Config struct {
	charts.Release
	// Validate is Policy.Validate.
	Validate model.Repetition
	// Kinds are the kinds of the GPU nodes. If it is nil, values are rejected if objects depend on the kinds.
	// Stages sets Release.Nodes from it.
	Kinds pools.Kinds
	// ByHelm leaves out the objects that Helm installs together with the orchestrator, such as roles.
	ByHelm bool
}

// renderStages returns the stages in order, with their validations. It does not handle pools. The
// error names the path of a value that is not accepted.
func renderStages(cfg Config) ([]model.Stage, error) {
	rendered, err := charts.Stages(cfg.Release)
	if err != nil {
		return nil, err
	}
	stages := make([]model.Stage, 0, len(rendered))
	for _, r := range rendered {
		objects, err := Objects(r.Manifest)
		if err != nil {
			return nil, fmt.Errorf("read the objects of chart %s: %w", r.Name, err)
		}
		stages = append(stages, model.Stage{Name: r.Name, Needs: r.Needs, Objects: objects})
	}
	Attach(stages, cfg.Validate)
	own := Namespace(cfg.Namespace)
	if len(stages) > 0 && !slices.Contains(model.Inventory(stages), model.RefOf(own)) {
		stages[0].Objects = slices.Insert(stages[0].Objects, 0, own)
	}
	return stages, nil
}

// Objects decodes a manifest, and adds the label ManagedBy to each object.
func Objects(manifest string) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(manifest), len(manifest)+1)
	for {
		o := &unstructured.Unstructured{}
		err := decoder.Decode(&o.Object)
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, err
		}
		if len(o.Object) == 0 {
			continue
		}
		if o.GetKind() == "" || o.GetName() == "" {
			return nil, fmt.Errorf("object %d has no kind or no name", len(objects)+1)
		}
		mark(o)
		objects = append(objects, o)
	}
}

// mark sets the label ManagedBy.
func mark(o *unstructured.Unstructured) {
	labels := o.GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}
	labels[ManagedBy] = model.FieldManager
	o.SetLabels(labels)
}

// Attach removes the PodTemplates of validations from the objects of their stages, and adds them as
// checks to the stages that they validate.
func Attach(stages []model.Stage, validate model.Repetition) {
	var templates []*unstructured.Unstructured
	for i := range stages {
		stages[i].Objects = slices.DeleteFunc(stages[i].Objects, func(o *unstructured.Unstructured) bool {
			is := o.GetKind() == "PodTemplate" && o.GetAnnotations()[annotationValidates] != ""
			if is {
				templates = append(templates, o)
			}
			return is
		})
	}
	for _, template := range templates {
		after := template.GetAnnotations()[annotationValidates]
		i := slices.IndexFunc(stages, func(s model.Stage) bool { return s.Name == after })
		if i < 0 {
			continue // the stage that it validates is turned off
		}
		check := newCheck(template)
		for _, o := range stages[i].Objects {
			if o.GetKind() == "DaemonSet" {
				check.DaemonSets = append(check.DaemonSets, o.GetName())
			}
		}
		check.Revision = model.HashOf(hashes(needed(stages, i)), template.Object, validate.Text)
		repeat(&check, validate)
		stages[i].Validations = append(stages[i].Validations, check)
	}
}

// needed returns a stage and the stages that it needs, directly or through others. Stages are in the
// order of their needs.
func needed(stages []model.Stage, i int) []model.Stage {
	needs := slices.Clone(stages[i].Needs)
	all := []model.Stage{stages[i]}
	for _, st := range slices.Backward(stages[:i]) {
		if slices.Contains(needs, st.Name) {
			needs = append(needs, st.Needs...)
			all = append(all, st)
		}
	}
	return all
}

func newCheck(template *unstructured.Unstructured) model.Check {
	check := model.Check{
		Name: template.GetName(), Template: template, Timeout: defaultTimeout,
		Nodes: cmp.Or(template.GetAnnotations()[annotationNodes], "1"),
	}
	seconds, ok, err := unstructured.NestedNumberAsFloat64(template.Object, "template", "spec", "activeDeadlineSeconds")
	if ok && err == nil {
		check.Timeout = time.Duration(seconds) * time.Second
	}
	return check
}

// repeat changes where and with which tests a check runs.
func repeat(check *model.Check, validate model.Repetition) {
	if validate.On != "" {
		check.Nodes = model.OnAll
	}
	if validate.On != "" && validate.On != model.OnAll {
		check.Only = strings.Split(validate.On, ",")
	}
	variables := map[string]string{model.WithAllGPUs: "VECTORADD_ALL_DEVICES", model.WithCopies: "VECTORADD_COPIES"}
	containers, _, _ := unstructured.NestedSlice(check.Template.Object, "template", "spec", "containers")
	for _, container := range containers {
		in, _ := container.(map[string]any)
		env, _ := in["env"].([]any)
		for test := range strings.SplitSeq(validate.With, ",") {
			if variable := variables[test]; variable != "" {
				env = append(env, map[string]any{"name": variable, "value": "true"})
			}
		}
		if len(env) > 0 {
			in["env"] = env
		}
	}
	if len(containers) > 0 {
		_ = unstructured.SetNestedSlice(check.Template.Object, containers, "template", "spec", "containers")
	}
}

// annotationRevision has the same value in objects that differ only in the kinds of their nodes.
const annotationRevision = "outrigger.dev/revision"

// hashes identifies the content of stages. A kind of nodes that appears or disappears does not change it.
func hashes(stages []model.Stage) []string {
	var out []string
	for _, s := range stages {
		for _, o := range s.Objects {
			if id := cmp.Or(o.GetAnnotations()[annotationRevision], model.Hash(o)); !slices.Contains(out, id) {
				out = append(out, id)
			}
		}
	}
	return out
}

// Namespace returns the Namespace object of the orchestrator, which no chart has. An existing
// Namespace is used unchanged.
func Namespace(name string) *unstructured.Unstructured {
	o := model.Ref{APIVersion: "v1", Kind: "Namespace", Name: name}.Object()
	mark(o)
	return o
}
