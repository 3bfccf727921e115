package model

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// LabelOneForAll is "true" on a Deployment of an agent that serves all pools, and on the objects
// that the Deployment needs.
const LabelOneForAll = "outrigger.dev/one-for-all-pools"

// PodSpec returns the spec of the check's pods. It returns an error if the PodTemplate has fields
// of a wrong type.
func (c Check) PodSpec() (corev1.PodSpec, error) {
	var template corev1.PodTemplate
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(c.Template.Object, &template); err != nil {
		return corev1.PodSpec{}, fmt.Errorf("read PodTemplate %s: %w: correct the values of the chart validator", c.Name, err)
	}
	return template.Template.Spec, nil
}

// NodeLabels returns the labels that pools and validations use to select nodes.
func NodeLabels(stages []Stage) []string {
	labels := map[string]bool{}
	for _, s := range stages {
		for label := range s.NodeSelector {
			labels[label] = true
		}
		for _, check := range s.Validations {
			spec, err := check.PodSpec()
			if err != nil {
				continue // its status reports the error
			}
			for label := range spec.NodeSelector {
				labels[label] = true
			}
			for _, term := range terms(spec.Affinity) {
				for _, e := range term.MatchExpressions {
					labels[e.Key] = true
				}
			}
		}
	}
	return slices.Sorted(maps.Keys(labels))
}

// terms returns the required node selector terms. A node has to match one of them.
func terms(a *corev1.Affinity) []corev1.NodeSelectorTerm {
	if a == nil || a.NodeAffinity == nil || a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return nil
	}
	return a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
}
