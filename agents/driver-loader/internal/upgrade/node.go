package upgrade

import (
	"context"
	"errors"
	"fmt"
	"reflect" // DeepEqual: the values have slices, maps or pointers
	"slices"
	"strconv"
	"strings"
	"time"

	"outrigger.dev/pkg/nodestate"
	"outrigger.dev/pkg/text"
)

// maxCause is the largest size of CauseAnnotation, in bytes.
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

// nodeFields returns the fields of the Node that Next needs. StateLabel is not included, because
// other tools also write it and the journal has the state.
func nodeFields(n nodestate.Node) Node {
	return Node{
		Unschedulable: n.Unschedulable,
		Cordoned:      n.Annotations[CordonedAnnotation] != "",
		Skip:          n.Labels[SkipLabel] == "true",
		Requested:     n.Annotations[RequestedAnnotation] == "true",
		Granted:       n.Annotations[GrantAnnotation],
	}
}

// publishedFields returns the labels and annotations for a journal. daemonSet is the agent's DaemonSet.
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
		annotations[CauseAnnotation] = text.Cut(text.OneLine(errors.New(j.Cause.Line())), maxCause)
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

// OptionalCondition is the type of the Node's condition for the optional modules of the driver.
const OptionalCondition = "GPUOptionalModulesLoaded"

// optional returns the condition to publish, or nil. It removes a condition that the Node must not have.
func (u *Upgrade) optional(ctx context.Context, n nodestate.Node) (*nodestate.Condition, error) {
	if u.cfg.Optional == nil {
		return nil, nil //nolint:nilnil // no condition
	}
	c, known := u.cfg.Optional()
	published := slices.ContainsFunc(n.Conditions, func(c nodestate.Condition) bool { return c.Type == OptionalCondition })
	if c != nil || !known || !published {
		return c, nil
	}
	if err := u.node.Withdraw(ctx, nodestate.Published{Condition: true}); err != nil {
		return nil, fmt.Errorf("remove the condition %s: %w", OptionalCondition, err)
	}
	return nil, nil //nolint:nilnil // no condition
}

// publish publishes the state. It reports whether it has changed the Node, and after which time it
// must be called again; 0 for never. At rest, it writes only once, so that other tools can change
// the labels. A change by another tool can cause a grant for a Node at rest. publish then writes
// again, because the grant would otherwise count forever.
func (u *Upgrade) publish(ctx context.Context, n nodestate.Node) (wrote bool, again time.Duration, err error) {
	d := publishedFields(u.journal, u.cfg.DaemonSet)
	if d.Condition, err = u.optional(ctx, n); err != nil {
		return false, 0, err
	}
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
