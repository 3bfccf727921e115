package upgrade

import (
	"context"
	"fmt"
	"maps"
	"strconv"
	"strings"

	"outrigger.dev/pkg/kube"
	"outrigger.dev/pkg/text"
)

// maxCause is the most bytes of CauseAnnotation.
const maxCause = 1024

// object is what the upgrade reads of the Node.
type object struct {
	Metadata struct {
		ResourceVersion string            `json:"resourceVersion"`
		Labels          map[string]string `json:"labels"`
		Annotations     map[string]string `json:"annotations"`
	} `json:"metadata"`
	Spec struct {
		Unschedulable bool `json:"unschedulable"`
	} `json:"spec"`
	Status struct {
		// Capacity counts unhealthy devices too.
		Capacity map[string]string `json:"capacity"`
	} `json:"status"`
}

// hasPlugin reports whether a device plugin has registered the node's GPUs or MIG devices.
func (n object) hasPlugin() bool {
	for resource, count := range n.Status.Capacity {
		if strings.HasPrefix(resource, "nvidia.com/") && count != "0" {
			return true
		}
	}
	return false
}

// seen is the part of the Node whose changes wake Run: its version changes with each heartbeat.
type seen struct {
	Metadata struct {
		Labels      map[string]string `json:"labels"`
		Annotations map[string]string `json:"annotations"`
	} `json:"metadata"`
	Spec struct {
		Unschedulable bool `json:"unschedulable"`
	} `json:"spec"`
}

// read returns the part of the Node that Next looks at. StateLabel is not in it: other tools
// write it too, and the journal has the state.
func (n object) read() Node {
	return Node{
		Unschedulable: n.Spec.Unschedulable,
		Cordoned:      n.Metadata.Annotations[CordonedAnnotation] != "",
		Skip:          n.Metadata.Labels[SkipLabel] == "true",
		Requested:     n.Metadata.Annotations[RequestedAnnotation] == "true",
		Granted:       n.Metadata.Annotations[GrantAnnotation],
	}
}

// fields are the label and the annotations of a state.
type fields struct {
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
}

// published returns the fields for a journal, on a node whose agent has this DaemonSet.
func published(j Journal, daemonSet string) fields {
	labels, annotations := map[string]string{}, map[string]string{}
	if label := j.State.Label(); label != "" {
		labels[StateLabel] = label
		annotations[DaemonSetAnnotation] = daemonSet
	}
	if j.Target != "" {
		annotations[DriverAnnotation] = j.Target
	}
	if j.Failed != "" && !j.State.goingBack() {
		annotations[FailedAnnotation] = j.Failed
	}
	if j.Cause != nil {
		annotations[CauseAnnotation] = text.Cut(text.Printable(j.Cause.Error()), maxCause)
	}
	if j.State.Active() && j.WasCordoned {
		annotations[InitialAnnotation] = "true"
	}
	since := strconv.FormatInt(j.Since.Unix(), 10)
	switch j.State {
	case WaitingJobs:
		annotations[WaitStartAnnotation] = since
	case Validating:
		annotations[ValidationStartAnnotation] = since
	default:
	}
	return fields{Labels: labels, Annotations: annotations}
}

// shows reports whether the Node has the fields, and none of this project's that is not one of them.
func (n object) shows(f fields) bool {
	for _, key := range []string{CauseAnnotation, DriverAnnotation, FailedAnnotation} {
		if n.Metadata.Annotations[key] != f.Annotations[key] {
			return false
		}
	}
	return maps.Equal(f.Labels, only(n.Metadata.Labels, f.Labels)) && maps.Equal(f.Annotations, only(n.Metadata.Annotations, f.Annotations))
}

// only returns the entries of a map whose keys another one has.
func only(of, keys map[string]string) map[string]string {
	out := map[string]string{}
	for k := range keys {
		if v, has := of[k]; has {
			out[k] = v
		}
	}
	return out
}

// publish applies the label and the annotations of the state, unless the Node has them, and
// reports whether it did. At rest it does so once, whatever other tools write, unless the Node has a grant: what
// they wrote has caused it, and it would hold a place for ever.
func (u *Upgrade) publish(ctx context.Context, n object) (wrote bool, err error) {
	f := published(u.journal, u.cfg.DaemonSet)
	known := u.shown != nil && maps.Equal(u.shown.Labels, f.Labels) && maps.Equal(u.shown.Annotations, f.Annotations)
	if known && u.journal.State.resting() && n.Metadata.Annotations[GrantAnnotation] == "" || (known || u.shown == nil) && n.shows(f) {
		u.shown = &f
		return false, nil
	}
	node := u.cfg.Client.Node()
	if err := u.cfg.Client.Apply(ctx, node, map[string]any{
		"apiVersion": "v1", "kind": "Node",
		"metadata": map[string]any{"name": node.Name, "labels": f.Labels, "annotations": f.Annotations},
	}); err != nil {
		return false, fmt.Errorf("publish the state of the upgrade on node %s: %w", node.Name, err)
	}
	u.shown = &f
	return true, nil
}

// cordon makes the node unschedulable, and says in the same write who did it.
func (u *Upgrade) cordon(ctx context.Context, n object, target string) error {
	ops := n.cordoned().Cordon(n.Metadata.Annotations != nil, target)
	if err := u.cfg.Client.Patch(ctx, u.cfg.Client.Node(), ops); err != nil {
		return fmt.Errorf("cordon node %s: %w", u.cfg.Client.Node().Name, err)
	}
	return nil
}

// uncordon takes back what cordon wrote, and nothing else.
func (u *Upgrade) uncordon(ctx context.Context, n object) error {
	ops := n.cordoned().Uncordon(n.Spec.Unschedulable)
	if err := u.cfg.Client.Patch(ctx, u.cfg.Client.Node(), ops); err != nil {
		return fmt.Errorf("uncordon node %s: %w", u.cfg.Client.Node().Name, err)
	}
	return nil
}

// accept removes the request for an upgrade, which has begun.
func (u *Upgrade) accept(ctx context.Context, n object) error {
	ops := []kube.Operation{kube.Unchanged(n.Metadata.ResourceVersion), {Op: "remove", Path: kube.AnnotationPath(RequestedAnnotation)}}
	if err := u.cfg.Client.Patch(ctx, u.cfg.Client.Node(), ops); err != nil {
		return fmt.Errorf("remove the annotation %s of node %s: %w", RequestedAnnotation, u.cfg.Client.Node().Name, err)
	}
	return nil
}

// cordoned is the mark of this agent's cordon on the Node as it was read.
func (n object) cordoned() kube.CordonedBy {
	return kube.CordonedBy{Annotation: CordonedAnnotation, Version: n.Metadata.ResourceVersion}
}
