package kube

import (
	"encoding/json"
	"strings"
)

// CordonedBy is how an agent cordons its Node: an annotation, written in the same patch, says that
// it was this agent, so that it uncordons no node that somebody else has cordoned.
type CordonedBy struct {
	// Annotation is its key.
	Annotation string
	// Version is the resourceVersion of the Node as it was read: the patch fails if the Node has
	// changed since.
	Version string
}

// Cordon returns the patch that makes the Node unschedulable. value is that of the annotation;
// annotated says whether the Node has annotations.
func (c CordonedBy) Cordon(annotated bool, value string) []Operation {
	ops := []Operation{Unchanged(c.Version), {Op: "add", Path: "/spec/unschedulable", Value: json.RawMessage("true")}}
	if !annotated {
		ops = append(ops, Operation{Op: "add", Path: "/metadata/annotations", Value: json.RawMessage("{}")})
	}
	return append(ops, Operation{Op: "add", Path: AnnotationPath(c.Annotation), Value: quote(value)})
}

// Uncordon returns the patch that takes back what Cordon wrote, and nothing else. unschedulable
// says whether the Node still is.
func (c CordonedBy) Uncordon(unschedulable bool) []Operation {
	ops := []Operation{Unchanged(c.Version), {Op: "remove", Path: AnnotationPath(c.Annotation)}}
	if unschedulable {
		ops = append(ops, Operation{Op: "remove", Path: "/spec/unschedulable"})
	}
	return ops
}

// Unchanged makes a patch fail if the object is not the one that was read with this
// resourceVersion.
func Unchanged(version string) Operation {
	return Operation{Op: "test", Path: "/metadata/resourceVersion", Value: quote(version)}
}

// AnnotationPath returns the path of an annotation in a JSON patch (RFC 6901).
func AnnotationPath(key string) string { return "/metadata/annotations/" + escape(key) }

// LabelPath returns the path of a label in a JSON patch.
func LabelPath(key string) string { return "/metadata/labels/" + escape(key) }

func escape(key string) string { return strings.NewReplacer("~", "~0", "/", "~1").Replace(key) }

func quote(s string) json.RawMessage {
	data, err := json.Marshal(s)
	if err != nil {
		panic(err) // a string
	}
	return data
}
