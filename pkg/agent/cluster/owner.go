package cluster

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"outrigger.dev/pkg/agent"
	"outrigger.dev/pkg/kube"
)

// askLimit bounds the question whether the DaemonSet is gone. The rest of the time that an agent
// has is for what it removes.
const askLimit = 10 * time.Second

// Owner is the DaemonSet to which the agent's pod belongs. If a pod ends for any other reason
// than that it is gone, such as an update or the drain of its node, what the agent has published
// stays.
type Owner struct {
	// Left is set if the DaemonSet is gone for an agent also when its pods are not for the agent's
	// node any more, because the labels of the node or the nodeSelector and affinity of the pods
	// have changed. It needs the verb list on nodes.
	Left bool
	// Watched is set if the DaemonSet is watched while the agent runs, which needs the verbs list
	// and watch beside get: when a release is uninstalled, the rights of the agent go with the
	// DaemonSet, and a watch that has begun still reports its end.
	Watched bool
	// ByHand is the command that removes what the agent has published, where there is one.
	ByHand string

	client *kube.Client
	// set has no name if it is not known.
	set kube.Object
	log *slog.Logger

	mu sync.Mutex
	// seen is set once the watch has delivered the DaemonSet, and gone while that is being deleted
	// or no longer exists.
	seen, gone bool
}

var _ agent.Owner = (*Owner)(nil)

// Object returns the DaemonSet that the settings name.
func (s *Settings) Object() kube.Object {
	return kube.Object{API: "apps/v1", Resource: "daemonsets", Namespace: s.Namespace, Name: s.DaemonSet}
}

// Owner returns the DaemonSet that the settings name. It is not known to an agent without an
// API server, where api is nil.
func (s *Settings) Owner(api *API, log *slog.Logger) *Owner {
	if api == nil {
		return &Owner{}
	}
	return &Owner{client: api.Client, log: log, set: s.Object()}
}

// daemonSet is what Owner reads.
type daemonSet struct {
	Metadata struct {
		DeletionTimestamp string `json:"deletionTimestamp"`
	} `json:"metadata"`
	Spec struct {
		Template struct {
			Spec placement `json:"spec"`
		} `json:"template"`
	} `json:"spec"`
}

// Watch follows the DaemonSet until ctx ends, if it is to be watched.
func (o *Owner) Watch(ctx context.Context) {
	if !o.Watched || o.set.Name == "" {
		return
	}
	kube.Watch(ctx, o.client, kube.Query{Object: o.set, Metadata: true}, func(sets []daemonSet) {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.seen = o.seen || len(sets) > 0
		o.gone = o.seen && (len(sets) == 0 || sets[0].Metadata.DeletionTimestamp != "")
	})
}

// Gone reports whether the DaemonSet has no pod on the node any more.
func (o *Owner) Gone(ctx context.Context) bool {
	if o.set.Name == "" {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	reason, err := o.reason(ctx)
	switch {
	case err != nil:
		log := o.log
		if o.ByHand != "" {
			log = log.With("command", o.ByHand)
		}
		// After an update the next pod needs everything, and nobody removes it after a deletion: only
		// a person knows.
		log.Warn("cannot ask whether the DaemonSet of this agent is deleted, leaving what it has published; if it is, remove that by hand, as the documentation of the agent says", "err", err)
	case reason != "":
		o.log.Info("the DaemonSet has no pod on this node any more, removing what this agent has published", "reason", reason)
	}
	return reason != ""
}

// deletedSet is what has become of a DaemonSet that is being deleted or gone.
const deletedSet = "it is deleted"

// reason says why the DaemonSet has no pod on the node any more, "" if it has.
func (o *Owner) reason(ctx context.Context) (string, error) {
	seen, gone := o.watched()
	switch {
	case gone:
		return deletedSet, nil
	case o.Watched && !seen:
		return "", nil // Its name may be wrong.
	}
	// A watch may be behind, or interrupted.
	reason, err := o.readReason(ctx)
	if _, gone := o.watched(); gone {
		return deletedSet, nil
	}
	return reason, err
}

// watched returns what the watch has delivered.
func (o *Owner) watched() (seen, gone bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.seen, o.gone
}

// readReason is reason, as the API server knows it.
func (o *Owner) readReason(ctx context.Context) (string, error) {
	var set daemonSet
	err := o.client.Get(ctx, o.set, &set)
	switch {
	case apierrors.IsNotFound(err), set.Metadata.DeletionTimestamp != "":
		return deletedSet, nil
	case err != nil:
		return "", fmt.Errorf("read the DaemonSet %s/%s: %w", o.set.Namespace, o.set.Name, err)
	case !o.Left:
		return "", nil
	}
	selectors, ok := set.Spec.Template.Spec.selectors()
	if !ok {
		return "", nil // Only the DaemonSet controller knows.
	}
	for _, selector := range selectors {
		if selects, err := o.selects(ctx, selector); selects || err != nil {
			return "", err
		}
	}
	// A Node that is gone matches nothing, and has nothing to remove.
	there, err := o.selects(ctx, "")
	if !there || err != nil {
		return "", err
	}
	return "it does not select this node any more", nil
}

// selects reports whether the agent's Node exists and a label selector selects it; the empty one
// selects each.
func (o *Owner) selects(ctx context.Context, selector string) (bool, error) {
	node := o.client.Node()
	found, err := kube.List[struct{}](ctx, o.client, kube.Query{Object: node, LabelSelector: selector, Metadata: true})
	if err != nil {
		return false, fmt.Errorf("ask whether the labels of the node %s match %q: %w", node.Name, selector, err)
	}
	return len(found) > 0, nil
}
