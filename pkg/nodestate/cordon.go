package nodestate

import (
	"context"
	"encoding/json"
	"fmt"

	"outrigger.dev/pkg/kube"
)

// Cordon makes the Node unschedulable. The same write adds an annotation that names this writer, so
// that it does not uncordon a node that another writer has cordoned. Cordon fails if the Node has
// changed since it was read as n.
func (w *Writer) Cordon(ctx context.Context, n Node, value string) error {
	record, err := annotate(n, w.cfg.Cordon, value)
	if err != nil {
		return err
	}
	ops := []kube.Operation{kube.Unchanged(n.Version), {Op: "add", Path: "/spec/unschedulable", Value: json.RawMessage("true")}}
	return w.patch(ctx, "cordon", append(ops, record...))
}

// annotate returns the patch that sets an annotation.
func annotate(n Node, key, value string) ([]kube.Operation, error) {
	quoted, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	var ops []kube.Operation
	if n.Annotations == nil {
		ops = append(ops, kube.Operation{Op: "add", Path: "/metadata/annotations", Value: json.RawMessage("{}")})
	}
	return append(ops, kube.Operation{Op: "add", Path: kube.AnnotationPath(key), Value: quoted}), nil
}

// Uncordon reverts the changes of Cordon. It fails if the Node has changed since it was read as n.
func (w *Writer) Uncordon(ctx context.Context, n Node) error {
	if !w.Cordoned(n) {
		return nil
	}
	ops := []kube.Operation{kube.Unchanged(n.Version), {Op: "remove", Path: kube.AnnotationPath(w.cfg.Cordon)}}
	if n.Unschedulable {
		ops = append(ops, kube.Operation{Op: "remove", Path: "/spec/unschedulable"})
	}
	return w.patch(ctx, "uncordon", ops)
}

// Cordoned reports whether this writer has cordoned the Node.
func (w *Writer) Cordoned(n Node) bool { return n.Annotations[w.cfg.Cordon] != "" }

// RemoveAnnotation removes an annotation that another writer owns. It fails if the Node has changed
// since it was read as n.
func (w *Writer) RemoveAnnotation(ctx context.Context, n Node, key string) error {
	return w.patch(ctx, "remove the annotation "+key+" from", []kube.Operation{kube.Unchanged(n.Version), {Op: "remove", Path: kube.AnnotationPath(key)}})
}

func (w *Writer) patch(ctx context.Context, what string, ops []kube.Operation) error {
	n, err := w.api.patch(ctx, ops)
	if err != nil {
		return fmt.Errorf("%s node %s: %w", what, w.cfg.name, err)
	}
	w.See(n)
	return nil
}
