package manager

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"outrigger.dev/pkg/contract"
	"outrigger.dev/pkg/kube"
	"outrigger.dev/pkg/pace"
)

// endLimit bounds the requests at the end.
const endLimit = 10 * time.Second

// uncordonAtEnd uncordons the node if this agent has cordoned it: nobody may come to do it later. An
// agent that starts again cordons it again. Until a reboot it stays cordoned: pods that come now
// would be in the way after it.
func (m *Manager) uncordonAtEnd(ctx context.Context) {
	if !m.delivered.Load().Cordoned && !m.cordoned || m.attempt.Rebooting {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, endLimit)
	defer cancel()
	if err := m.uncordon(ctx); err != nil {
		m.cfg.Log.Error("cannot uncordon the node at the end: unless the agent starts again, uncordon it by hand", "err", err)
	}
}

// Withdraw takes back what the agent has published: the state and its cause, the cordon, and the
// fact mig-ready. The label of the config is the user's, and the layouts stay. It is for an agent
// that does not come back to the node, after Run.
func (m *Manager) Withdraw(ctx context.Context) error {
	return errors.Join(m.cfg.Contract.Remove(contract.MIGReady), m.unpublish(ctx))
}

// unpublish takes back what is written to the Node. A heartbeat of the kubelet between reading
// the Node and writing it makes the API server reject the write, which is then repeated.
func (m *Manager) unpublish(ctx context.Context) error {
	retry := pace.Backoff{First: 50 * time.Millisecond, Most: time.Second}
	for {
		n, err := m.fetch(ctx)
		if apierrors.IsNotFound(err) {
			return nil
		}
		if ops := n.unpublished(); err == nil && len(ops) > 0 {
			err = m.cfg.Client.Patch(ctx, m.cfg.Client.Node(), ops)
		}
		if err == nil {
			return nil
		}
		if !retry.Pause(ctx) {
			return fmt.Errorf("remove the label %s, the annotation %s and the cordon from node %s: %w", StateLabel, CauseAnnotation, m.cfg.Client.Node().Name, err)
		}
	}
}

// unpublished returns the patch that takes back what is written to the Node, empty for nothing.
func (n object) unpublished() []kube.Operation {
	ops := []kube.Operation{kube.Unchanged(n.Metadata.ResourceVersion)}
	if n.Metadata.Annotations[CordonedAnnotation] != "" {
		ops = n.cordoned().Uncordon(n.Spec.Unschedulable)
	}
	remove := func(path, key string, from map[string]string) {
		if _, there := from[key]; there {
			ops = append(ops, kube.Operation{Op: "remove", Path: path})
		}
	}
	remove(kube.AnnotationPath(CauseAnnotation), CauseAnnotation, n.Metadata.Annotations)
	remove(kube.LabelPath(StateLabel), StateLabel, n.Metadata.Labels)
	if len(ops) == 1 {
		return nil
	}
	return ops
}
