package model

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// Repetition is what the annotations of a policy ask from the validations.
type Repetition struct {
	// Text is the value of outrigger.dev/validate. Each new text repeats the validations.
	Text string
	// On is the value of outrigger.dev/validate-on: "all", or names of nodes, with commas. Empty leaves the choice to the
	// chart validator.
	On string
	// With is the value of outrigger.dev/validate-with: names of more tests, with commas.
	With string
}

// The additional tests of a validation, and the value of Repetition.On for all nodes.
const (
	// WithAllGPUs uses each GPU that a pod sees, instead of one.
	WithAllGPUs = "all-gpus"
	// WithCopies copies between the host and the GPUs, and between GPUs.
	WithCopies = "copies"
	// OnAll is for all nodes.
	OnAll = "all"
)

// Check is a validation of a stage.
type Check struct {
	// Name is the name of its pods: "nvidia-device-plugin-validation".
	Name string
	// Template is the PodTemplate of the chart validator.
	Template *unstructured.Unstructured
	// DaemonSets are the names of the stage's DaemonSets.
	DaemonSets []string
	// Nodes is the number of nodes that the check runs on: "1", "10%" or "all".
	Nodes string
	// Only has the names of the nodes that the check may run on. It is empty for any node.
	Only []string
	// Timeout is the time limit of one pod, from its creation.
	Timeout time.Duration
	// Revision changes if the check has to be repeated. It is derived from the objects of the stage
	// and of the stages that it needs, and from Repetition.Text.
	Revision string
}

// PodSpec returns the spec of the check's pods. It returns an error if the PodTemplate has fields
// of a wrong type.
func (c Check) PodSpec() (corev1.PodSpec, error) {
	var template corev1.PodTemplate
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(c.Template.Object, &template); err != nil {
		return corev1.PodSpec{}, fmt.Errorf("read PodTemplate %s: %w: correct the values of the chart validator", c.Name, err)
	}
	return template.Template.Spec, nil
}
