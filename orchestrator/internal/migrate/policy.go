package migrate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"outrigger.dev/pkg/kube"
	"outrigger.dev/pkg/pace"
)

// The ways to hand a component over. In both, the label of a node says which side runs there.
const (
	// ByLabels hands over group by group. NVIDIA's DaemonSets stay for the other nodes.
	ByLabels = "labels"
	// ByClusterPolicy also disables the component in NVIDIA's ClusterPolicy, after the first node. NVIDIA's operator then
	// removes its DaemonSets, and all other nodes are handed over at the same time.
	ByClusterPolicy = "clusterpolicy"
)

// disabledPrefix begins the annotations of NVIDIA's ClusterPolicy that have the record of a disabled component.
const disabledPrefix = "outrigger.dev/disabled-by-migrate."

var policiesResource = schema.GroupVersionResource{Group: "nvidia.com", Version: "v1", Resource: "clusterpolicies"} //nolint:gochecknoglobals // it is constant

// record is what an undo needs after a component has been disabled in NVIDIA's ClusterPolicy.
type record struct {
	// Before has the value of spec.KEY.enabled by key. It is nil if the section had no value.
	Before map[string]*bool `json:"before"`
	// Sets are the DaemonSets that NVIDIA's operator then removes. Their pods end later than they.
	Sets []Set `json:"sets"`
}

// listPolicies lists NVIDIA's ClusterPolicies. A cluster without the kind has none.
func listPolicies(ctx context.Context, client dynamic.Interface) ([]unstructured.Unstructured, error) {
	list, err := client.Resource(policiesResource).List(ctx, metav1.ListOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", policiesResource.GroupResource(), err)
	}
	return list.Items, nil
}

// disabled returns the ClusterPolicy in which a migration has disabled a component, with the record, or nil.
func (s *State) disabled(c Component) (*unstructured.Unstructured, *record, error) {
	for i := range s.Policies {
		text, is := s.Policies[i].GetAnnotations()[disabledPrefix+c.Key]
		if !is {
			continue
		}
		found := &record{}
		if err := json.Unmarshal([]byte(text), found); err != nil {
			return nil, nil, fmt.Errorf("the annotation %s%s of ClusterPolicy %s of nvidia.com: %w; set spec.%s.enabled to its value before the migration, and remove the annotation", disabledPrefix, c.Key, s.Policies[i].GetName(), err, c.Key)
		}
		return &s.Policies[i], found, nil
	}
	return nil, nil, nil
}

// canDisable returns the ClusterPolicy in which a component can be disabled so that an undo restores it, or why not.
func (s *State) canDisable(c Component) (*unstructured.Unstructured, error) {
	const fix = "hand it over by labels"
	if c.Name == Driver {
		return nil, errors.New("all nodes would lose their driver at the same time, below running GPU pods: " + fix + ", which ends the GPU pods of one node after the other")
	}
	if len(s.Policies) != 1 {
		return nil, fmt.Errorf("the cluster has %d ClusterPolicies of nvidia.com, and exactly one can be changed and restored: %s", len(s.Policies), fix)
	}
	p := &s.Policies[0]
	if p.GetDeletionTimestamp() != nil {
		return nil, fmt.Errorf("ClusterPolicy %s of nvidia.com is being deleted, and cannot be restored: %s", p.GetName(), fix)
	}
	for _, key := range c.keys() {
		if _, is, err := unstructured.NestedMap(p.Object, "spec", key); err != nil || !is {
			return nil, fmt.Errorf("ClusterPolicy %s of nvidia.com has no section spec.%s, which an undo could restore: add it, or %s", p.GetName(), key, fix)
		}
	}
	_, _, err := s.disabled(c)
	return p, err
}

// keys returns the sections of NVIDIA's ClusterPolicy that enable the component.
func (c Component) keys() []string {
	keys := []string{c.Key}
	if slices.Contains(c.More, deploy+"dcgm") {
		keys = append(keys, "dcgm")
	}
	return keys
}

// enabledIn returns the value of spec.KEY.enabled, or nil.
func enabledIn(p *unstructured.Unstructured, key string) *bool {
	on, is, err := unstructured.NestedBool(p.Object, "spec", key, "enabled")
	if err != nil || !is {
		return nil
	}
	return &on
}

// disable disables a component in NVIDIA's ClusterPolicy, and waits until its operator has removed the DaemonSets. It
// enables the component again if that fails. It does nothing if the component is disabled.
func (r *Runner) disable(ctx context.Context, c Component) error {
	s, err := r.observe(ctx, c)
	if err != nil {
		return err
	}
	p, err := s.canDisable(c)
	if err != nil {
		return err
	}
	ops, keys, err := disabling(s, c, p)
	if err != nil || len(ops) == 0 {
		return err
	}
	r.Progress("%s: disables %s in ClusterPolicy %s of nvidia.com, for all nodes", c.Name, strings.Join(keys, " and "), p.GetName())
	if err := r.patchPolicy(ctx, p.GetName(), ops); err != nil {
		return err
	}
	if err := r.removed(ctx, c, keys); err != nil {
		return errors.Join(err, r.enable(context.WithoutCancel(ctx), c))
	}
	return nil
}

// disabling derives the changes that disable a component in a ClusterPolicy, and the keys that they change.
func disabling(s *State, c Component, p *unstructured.Unstructured) (ops []map[string]any, keys []string, err error) {
	_, known, err := s.disabled(c)
	if err != nil {
		return nil, nil, err
	}
	made := known
	if made == nil {
		made = &record{Before: map[string]*bool{}}
		for _, label := range c.Labels() {
			made.Sets = append(made.Sets, s.Side(label, Theirs)...)
		}
	}
	for _, key := range c.keys() {
		on := enabledIn(p, key)
		if on != nil && !*on {
			continue
		}
		path := "/spec/" + key + "/enabled"
		if on != nil {
			ops = append(ops, map[string]any{"op": "test", "path": path, "value": true})
		}
		ops, keys = append(ops, map[string]any{"op": "add", "path": path, "value": false}), append(keys, key)
		if known == nil {
			made.Before[key] = on
		}
	}
	if len(ops) == 0 || known != nil {
		return ops, keys, nil
	}
	text, err := json.Marshal(made)
	if err != nil {
		return nil, nil, err
	}
	if len(p.GetAnnotations()) == 0 {
		ops = append(ops, map[string]any{"op": "add", "path": "/metadata/annotations", "value": map[string]any{}})
	}
	return append(ops, map[string]any{"op": "add", "path": kube.AnnotationPath(disabledPrefix + c.Key), "value": string(text)}), keys, nil
}

// removed waits until NVIDIA's operator has removed the DaemonSets of a component.
func (r *Runner) removed(ctx context.Context, c Component, keys []string) error {
	for began := time.Now(); ; {
		s, err := r.observe(ctx, c)
		if err != nil {
			return err
		}
		var left []string
		for _, label := range c.Labels() {
			for _, set := range s.Side(label, Theirs) {
				left = append(left, set.Namespace+"/"+set.Name)
			}
		}
		if len(left) == 0 {
			return nil
		}
		for i := range s.Policies {
			for _, key := range keys {
				if on := enabledIn(&s.Policies[i], key); on == nil || *on {
					return fmt.Errorf("another program has enabled %s in ClusterPolicy %s of nvidia.com again: change it there, or hand %s over by labels", key, s.Policies[i].GetName(), c.Name)
				}
			}
		}
		if time.Since(began) > r.Timeout {
			return fmt.Errorf("NVIDIA's operator has not removed the DaemonSets %s within %s: check that it runs, or hand %s over by labels", names(left), r.Timeout, c.Name)
		}
		if !pace.Pause(ctx, r.Poll) {
			return context.Cause(ctx)
		}
	}
}

// enable gives NVIDIA's ClusterPolicy the values that a component had before a migration has disabled it. It does nothing
// without a record. A value that another program has changed since then stays.
func (r *Runner) enable(ctx context.Context, c Component) error {
	s, err := r.observe(ctx, c)
	if err != nil {
		return err
	}
	p, made, err := s.disabled(c)
	if err != nil || p == nil {
		return err
	}
	var ops []map[string]any
	for _, key := range c.keys() {
		before, is := made.Before[key]
		if on := enabledIn(p, key); !is || on == nil || *on {
			continue
		}
		path := "/spec/" + key + "/enabled"
		ops = append(ops, map[string]any{"op": "test", "path": path, "value": false})
		if before == nil {
			ops = append(ops, map[string]any{"op": "remove", "path": path})
		} else {
			ops = append(ops, map[string]any{"op": "replace", "path": path, "value": *before})
		}
	}
	r.Progress("%s: restores its values in ClusterPolicy %s of nvidia.com", c.Name, p.GetName())
	return r.patchPolicy(ctx, p.GetName(), append(ops, map[string]any{"op": "remove", "path": kube.AnnotationPath(disabledPrefix + c.Key)}))
}

// patchPolicy applies a JSON patch to a ClusterPolicy of NVIDIA's.
func (r *Runner) patchPolicy(ctx context.Context, name string, ops []map[string]any) error {
	body, err := json.Marshal(ops)
	if err != nil {
		return err
	}
	if _, err := r.Client.Resource(policiesResource).Patch(ctx, name, types.JSONPatchType, body, metav1.PatchOptions{FieldManager: Manager}); err != nil {
		return fmt.Errorf("change ClusterPolicy %s of nvidia.com: %w", name, r.explain(err))
	}
	return nil
}
