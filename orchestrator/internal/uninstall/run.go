// Package uninstall removes everything that the orchestrator has applied, in the order of
// package pass: first what runs pods, and the rights and policies of these pods only once the
// pods are gone. An agent takes back what it has made on its node when it stops, and needs its
// rights for that.
package uninstall

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"

	"outrigger.dev/orchestrator/internal/cluster"
	"outrigger.dev/orchestrator/internal/model"
	"outrigger.dev/orchestrator/internal/pass"
	"outrigger.dev/orchestrator/internal/validation"
)

// Run deletes those objects that are the orchestrator's, in reverse order, and writes a line
// about each. It returns the objects that were not gone when ctx ended.
func Run(ctx context.Context, c *cluster.Client, inventory []model.Ref, out io.Writer) ([]model.Ref, error) {
	for {
		objects, err := read(ctx, c, inventory)
		if err != nil {
			return nil, err
		}
		pods, err := validations(ctx, c, inventory)
		if err != nil {
			return nil, err
		}
		plan := pass.Next(nil, model.State{Policy: model.Policy{Deleting: true, Inventory: inventory}, Objects: objects, Pods: pods}, nil)
		if inventory = plan.Inventory; len(inventory)+len(plan.Delete) == 0 {
			return nil, nil
		}
		for _, seen := range plan.Delete {
			if err := c.Delete(ctx, seen.Ref, seen.UID); err != nil {
				return inventory, err
			}
			fmt.Fprintf(out, "deleting %s\n", seen.Ref)
			seen.Deleting = true
			objects[seen.Ref] = seen
		}
		for r, seen := range objects {
			if !seen.Deleting {
				continue
			}
			if err := Gone(ctx, c, r); err != nil {
				return inventory, fmt.Errorf("wait until %s is gone: %w", r, err)
			}
		}
	}
}

// read returns those objects that exist.
func read(ctx context.Context, c *cluster.Client, refs []model.Ref) (map[model.Ref]model.Seen, error) {
	objects := map[model.Ref]model.Seen{}
	for _, r := range refs {
		o, err := c.Get(ctx, r)
		if err != nil {
			return nil, err
		}
		if o != nil {
			objects[r] = model.Seen{Ref: r, UID: o.GetUID(), Ours: cluster.Ours(o), Deleting: o.GetDeletionTimestamp() != nil}
		}
	}
	return objects, nil
}

// Gone waits until an object does not exist. Most are gone at once.
func Gone(ctx context.Context, c *cluster.Client, r model.Ref) error {
	gvr, _, err := c.Mapping(r)
	if no := (*cluster.NoKindError)(nil); errors.As(err, &no) {
		return nil
	}
	if err != nil {
		return err
	}
	for {
		o, err := c.Get(ctx, r)
		if o == nil || err != nil {
			return err
		}
		w, err := c.Metadata.Resource(gvr).Namespace(r.Namespace).Watch(ctx, metav1.ListOptions{
			FieldSelector:   fields.OneTermEqualSelector("metadata.name", r.Name).String(),
			ResourceVersion: o.GetResourceVersion(),
		})
		if err != nil {
			return err
		}
		if deleted(ctx, w) {
			return nil
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}

// deleted waits for the end of the only object of a watch. It returns false if the watch ends.
func deleted(ctx context.Context, w watch.Interface) bool {
	defer w.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case event, ok := <-w.ResultChan():
			if !ok || event.Type == watch.Error {
				return false
			}
			if event.Type == watch.Deleted {
				return true
			}
		}
	}
}

// validations returns the pods of validations in the namespaces of these objects. Others may have
// pods with the same label in theirs.
func validations(ctx context.Context, c *cluster.Client, of []model.Ref) ([]model.Pod, error) {
	var pods []model.Pod
	err := each(ctx, c, "pods", validation.LabelCheck, func(o *unstructured.Unstructured) {
		if !slices.ContainsFunc(of, func(r model.Ref) bool { return r.Namespace == o.GetNamespace() }) {
			return
		}
		pods = append(pods, model.Pod{
			Namespace: o.GetNamespace(), Name: o.GetName(), Owner: o.GetLabels()[validation.LabelCheck], Of: o.GetLabels()[validation.LabelOf],
			Deleting: o.GetDeletionTimestamp() != nil,
		})
	})
	return pods, err
}
