package nodestate

import (
	"context"
	"encoding/json"
	"strings"

	"outrigger.dev/pkg/kube"
)

// The values of paused labels, as NVIDIA's driver manager and MIG manager write them.
const (
	PausedForDriverUpgrade = "paused-for-driver-upgrade"
	PausedForMIGChange     = "paused-for-mig-change"
)

// on is the value of a label that selects the Node for DaemonSets.
const on = "true"

// maxValue is the largest size of the value of a label, in bytes.
const maxValue = 63

// Pause keeps DaemonSets of other programs off the Node while an agent changes the driver or the GPUs, because their pods
// hold the driver and come back after an eviction. Such a DaemonSet selects the Node by a label with the value "true", which
// has another value during the pause. NVIDIA's managers write the same values, so an annotation records a pause of this writer,
// also for the next process.
type Pause struct {
	// Value is the value of paused labels, such as PausedForDriverUpgrade. If it is empty, no label is paused.
	Value string
	// Label is another label to pause, in addition to the labels of NVIDIA's GPU Operator for programs that hold the
	// driver. It may be empty.
	Label string
	// Annotation is the key of the annotation which records that this writer has paused the labels. The writes that
	// begin and end the pause also change the annotation.
	Annotation string
}

// keys returns the labels that a pause changes.
func (p Pause) keys() []string {
	if p.Value == "" {
		return nil
	}
	const deploy = "nvidia.com/gpu.deploy."
	keys := []string{deploy + "client", deploy + "dcgm", deploy + "dcgm-exporter", deploy + "device-plugin", deploy + "gpu-feature-discovery", deploy + "nvsm"}
	if p.Label != "" {
		keys = append(keys, p.Label)
	}
	return keys
}

// paused returns the value of a label during the pause. "false", an empty value, and a value that would be too long stay.
func (p Pause) paused(value string) string {
	switch {
	case value == on:
		return p.Value
	case value == "", value == "false", p.resumed(value) != value, len(value)+1+len(p.Value) > maxValue:
		return value
	}
	return value + "_" + p.Value
}

// resumed returns the value of a label after the pause. Another agent may have paused the label before or since.
func (p Pause) resumed(value string) string {
	if value == p.Value {
		return on
	}
	if before, is := strings.CutSuffix(value, "_"+p.Value); is {
		return before
	}
	if since, is := strings.CutPrefix(value, p.Value+"_"); is {
		return since
	}
	return strings.Replace(value, "_"+p.Value+"_", "_", 1)
}

// changes returns the labels that change changes, with their new values.
func (p Pause) changes(n Node, change func(string) string) map[string]string {
	changed := map[string]string{}
	for _, key := range p.keys() {
		if value, is := n.Labels[key]; is && change(value) != value {
			changed[key] = change(value)
		}
	}
	return changed
}

// Pausable reports whether a label of the Node can be paused.
func (w *Writer) Pausable(n Node) bool {
	return len(w.cfg.Pause.changes(n, w.cfg.Pause.paused)) > 0
}

// Paused reports whether this writer has paused labels of the Node.
func (w *Writer) Paused(n Node) bool { return n.Annotations[w.cfg.Pause.Annotation] != "" }

// Pause pauses the labels, and records this in an annotation with a value. It fails if the Node has changed since it was
// read as n.
func (w *Writer) Pause(ctx context.Context, n Node, value string) error {
	labels := w.cfg.Pause.changes(n, w.cfg.Pause.paused)
	if len(labels) == 0 {
		return nil
	}
	ops, err := relabel(n, labels)
	if err != nil {
		return err
	}
	record, err := annotate(n, w.cfg.Pause.Annotation, value)
	if err != nil {
		return err
	}
	return w.patch(ctx, "pause the labels nvidia.com/gpu.deploy.… of", append(ops, record...))
}

// Resume reverts the changes of Pause. It fails if the Node has changed since it was read as n.
func (w *Writer) Resume(ctx context.Context, n Node) error {
	if !w.Paused(n) {
		return nil
	}
	ops, err := relabel(n, w.cfg.Pause.changes(n, w.cfg.Pause.resumed))
	if err != nil {
		return err
	}
	ops = append(ops, kube.Operation{Op: "remove", Path: kube.AnnotationPath(w.cfg.Pause.Annotation)})
	return w.patch(ctx, "restore the labels nvidia.com/gpu.deploy.… of", ops)
}

// relabel returns the patch that changes labels that the Node has.
func relabel(n Node, labels map[string]string) ([]kube.Operation, error) {
	ops := []kube.Operation{kube.Unchanged(n.Version)}
	for key, value := range labels {
		quoted, err := json.Marshal(value)
		if err != nil {
			return nil, err
		}
		ops = append(ops, kube.Operation{Op: "replace", Path: kube.LabelPath(key), Value: quoted})
	}
	return ops, nil
}
