package upgrade

import (
	"context"
	"fmt"
	"reflect" // DeepEqual: maps are in the values
	"strconv"
	"strings"
	"time"

	"outrigger.dev/pkg/nodestate"
	"outrigger.dev/pkg/text"
)

// maxCause is the most bytes of CauseAnnotation.
const maxCause = 1024

// hasPlugin reports whether a device plugin has registered the node's GPUs or MIG devices.
func hasPlugin(n nodestate.Node) bool {
	for resource, count := range n.Capacity {
		if strings.HasPrefix(resource, "nvidia.com/") && count != "0" {
			return true
		}
	}
	return false
}

// nodeFields returns the part of the Node that Next looks at. StateLabel is not in it: other tools
// write it too, and the journal has the state.
func nodeFields(n nodestate.Node) Node {
	return Node{
		Unschedulable: n.Unschedulable,
		Cordoned:      n.Annotations[CordonedAnnotation] != "",
		Skip:          n.Labels[SkipLabel] == "true",
		Requested:     n.Annotations[RequestedAnnotation] == "true",
		Granted:       n.Annotations[GrantAnnotation],
	}
}

// publishedFields returns what a node whose agent has this DaemonSet shows of a journal.
func publishedFields(j Journal, daemonSet string) nodestate.Desired {
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
	return nodestate.Desired{Labels: labels, Annotations: annotations}
}

// publish publishes the state, and reports whether the Node has changed, or after which time to do it
// again; 0 for none. At rest it does so once, whatever other tools write, unless the Node has a grant:
// what they wrote has caused it, and it would hold a place for ever.
func (u *Upgrade) publish(ctx context.Context, n nodestate.Node) (wrote bool, again time.Duration, err error) {
	d := publishedFields(u.journal, u.cfg.DaemonSet)
	if u.journal.State.resting() && u.shown != nil && reflect.DeepEqual(*u.shown, d) && n.Annotations[GrantAnnotation] == "" {
		return false, 0, nil
	}
	r, err := u.node.Put(ctx, d)
	if err != nil {
		return false, 0, fmt.Errorf("publish the state of the upgrade: %w", err)
	}
	if r.After == 0 {
		u.shown = &d
	}
	now, _ := u.node.Node()
	return now.Version != n.Version, r.After, nil
}
