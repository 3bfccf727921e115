package facts

import (
	"fmt"
	"strings"
)

// Target is the part of a cluster that a diagnosis is about. The zero value is the whole cluster.
type Target struct {
	// Node is the name of a node.
	Node string
	// Namespace and Pod name a pod. The pod does not need to exist: a quota can forbid it.
	Namespace, Pod string
}

// ParseTarget reads the argument of a command: a node, NAMESPACE/POD, or pod/NAME in a namespace. An empty word
// is the whole cluster.
func ParseTarget(word, namespace string) (Target, error) {
	kind, name, both := strings.Cut(word, "/")
	switch {
	case word == "":
		return Target{}, nil
	case !both:
		return Target{Node: word}, nil
	case kind == "" || name == "" || strings.Contains(name, "/"):
		return Target{}, fmt.Errorf("read %q: name a node, or a pod as NAMESPACE/POD", word)
	}
	switch kind {
	case "node", "nodes", "no":
		return Target{Node: name}, nil
	case "pod", "pods", "po":
		return Target{Namespace: namespace, Pod: name}, nil
	}
	return Target{Namespace: kind, Pod: name}, nil
}

// String returns the target for messages.
func (t Target) String() string {
	switch {
	case t.Node != "":
		return "node " + t.Node
	case t.Pod != "":
		return "pod " + t.Namespace + "/" + t.Pod
	}
	return "the cluster"
}
