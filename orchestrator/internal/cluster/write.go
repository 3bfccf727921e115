package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"outrigger.dev/orchestrator/internal/model"
)

// Mode holds the options of Apply.
type Mode struct {
	// Known skips the check of the owner: the caller knows that the orchestrator owns the object.
	Known bool
	// Adopt takes over objects of other programs.
	Adopt bool
	// DryRun changes nothing.
	DryRun bool
}

// resource returns the client for r's kind and namespace.
func (c *Client) resource(ctx context.Context, r model.Ref) (dynamic.ResourceInterface, error) {
	gvr, namespaced, err := c.Mapping(ctx, r)
	if err != nil {
		return nil, err
	}
	if namespaced {
		return c.Dynamic.Resource(gvr).Namespace(r.Namespace), nil
	}
	return c.Dynamic.Resource(gvr), nil
}

// Get returns an object, or nil if the object or its kind does not exist.
func (c *Client) Get(ctx context.Context, r model.Ref) (*unstructured.Unstructured, error) {
	resource, err := c.resource(ctx, r)
	if IsNoKind(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	o, err := resource.Get(ctx, r.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", r, err)
	}
	return o, nil
}

// Apply applies an object with server-side apply, and returns the object that the API server
// stored. It returns a ForeignError if another program manages the object. A Namespace of another
// program is returned unchanged.
func (c *Client) Apply(ctx context.Context, o *unstructured.Unstructured, m Mode) (*unstructured.Unstructured, error) {
	r := model.RefOf(o)
	resource, err := c.resource(ctx, r)
	if err != nil {
		return nil, err
	}
	force := m.Known
	if !m.Known {
		live, err := c.Get(ctx, r)
		if err != nil {
			return nil, err
		}
		switch {
		case live == nil:
		case Ours(live):
			force = true
		case r.Kind == "Namespace":
			// A Namespace is never adopted: its deletion would delete the objects of other programs
			// in it.
			return live, nil
		case m.Adopt:
			force = true
		default:
			return nil, &ForeignError{Ref: r, Owner: Owner(live)}
		}
	}
	options := metav1.ApplyOptions{FieldManager: model.FieldManager, Force: force}
	if m.DryRun {
		options.DryRun = []string{metav1.DryRunAll}
	}
	applied, err := resource.Apply(ctx, r.Name, o, options)
	if apierrors.IsInvalid(err) && strings.Contains(err.Error(), "field is immutable") {
		return nil, fmt.Errorf("apply %s: %w; delete the object, and the orchestrator creates it again: %s", r, err, deleteCommand(r))
	}
	if err != nil {
		return nil, fmt.Errorf("apply %s: %w", r, err)
	}
	return applied, nil
}

func deleteCommand(r model.Ref) string {
	command := "kubectl delete " + strings.ToLower(r.Kind) + " " + r.Name
	if r.Namespace != "" {
		command += " -n " + r.Namespace
	}
	return command
}

// Create creates an object. It does not change an object that exists.
func (c *Client) Create(ctx context.Context, o *unstructured.Unstructured) error {
	r := model.RefOf(o)
	resource, err := c.resource(ctx, r)
	if err != nil {
		return err
	}
	_, err = resource.Create(ctx, o, metav1.CreateOptions{FieldManager: model.FieldManager})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create %s: %w", r, err)
	}
	return nil
}

// Delete deletes an object with this UID, or any object of this name if the UID is empty. An object
// that runs pods is deleted in the foreground: it exists until its pods are gone.
func (c *Client) Delete(ctx context.Context, r model.Ref, uid types.UID) error {
	resource, err := c.resource(ctx, r)
	if IsNoKind(err) {
		return nil
	}
	if err != nil {
		return err
	}
	policy := metav1.DeletePropagationBackground
	if r.RunsPods() {
		policy = metav1.DeletePropagationForeground
	}
	options := metav1.DeleteOptions{PropagationPolicy: &policy}
	if uid != "" {
		options.Preconditions = &metav1.Preconditions{UID: &uid}
	}
	err = resource.Delete(ctx, r.Name, options)
	// A conflict means that an object of the same name has another UID.
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("delete %s: %w", r, err)
	}
	return nil
}

// Patch patches an object, or its subresource: "status" or "". A patch of type []any is a JSON
// patch, every other type is a merge patch.
func (c *Client) Patch(ctx context.Context, r model.Ref, subresource string, patch any) (*unstructured.Unstructured, error) {
	resource, err := c.resource(ctx, r)
	if err != nil {
		return nil, err
	}
	body, err := json.Marshal(patch)
	if err != nil {
		return nil, fmt.Errorf("encode patch of %s: %w", r, err)
	}
	kind := types.MergePatchType
	if _, ok := patch.([]any); ok {
		kind = types.JSONPatchType
	}
	var subresources []string
	if subresource != "" {
		subresources = []string{subresource}
	}
	o, err := resource.Patch(ctx, r.Name, kind, body, metav1.PatchOptions{FieldManager: model.FieldManager}, subresources...)
	if err != nil {
		return nil, fmt.Errorf("write %s: %w", r, err)
	}
	return o, nil
}
