package cluster

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"

	"outrigger.dev/pkg/agent"
	"outrigger.dev/pkg/kube"
)

// askLimit is the time limit for asking the API server whether the DaemonSet is gone. The agent
// needs the rest of its time to withdraw.
const askLimit = 10 * time.Second

// The watch may report a deletion later than the API server refuses requests because the rights of
// the agent are deleted, too. The agent then looks at it every watchPeriod, for at most watchLimit.
const (
	watchPeriod = 20 * time.Millisecond
	watchLimit  = 3 * time.Second
)

// Owner is the DaemonSet that owns the agent's pod. The agent withdraws its published state only
// if the DaemonSet is gone. If its pod ends for another reason, such as an update or a drain of the
// node, everything stays.
type Owner struct {
	// Left is set if the DaemonSet also counts as gone when its pods no longer select the agent's
	// node, because the labels of the node or the nodeSelector or affinity of the pods have
	// changed. It needs the verb list on nodes.
	Left bool
	// Watched is set if the agent watches the DaemonSet while it runs. This needs the verbs list
	// and watch in addition to get. When a release is uninstalled, the permissions of the agent are
	// deleted with the DaemonSet, but a watch that has begun still reports the deletion.
	Watched bool
	// ByHand is the command that withdraws instead of the agent, for a person to run, or empty.
	ByHand string

	client *kube.Client
	// set has an empty name if the DaemonSet is not known.
	set kube.Object
	log *slog.Logger

	mu sync.Mutex
	// seen is set after the watch has delivered the DaemonSet. gone is set while the DaemonSet is
	// being deleted or no longer exists.
	seen, gone bool
}

var _ agent.Owner = (*Owner)(nil)

// Object returns the DaemonSet that the settings name.
func (s *Settings) Object() kube.Object {
	return kube.Object{API: "apps/v1", Resource: "daemonsets", Namespace: s.Namespace, Name: s.DaemonSet}
}

// Owner returns the DaemonSet that the settings name. Without an API server, when api is nil, the
// DaemonSet is not known.
func (s *Settings) Owner(api *API, log *slog.Logger) *Owner {
	if api == nil {
		return &Owner{}
	}
	return &Owner{client: api.Client, log: log, set: s.Object()}
}

// daemonSet is the part of a DaemonSet that Owner reads.
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

// Watch follows the DaemonSet until ctx ends. It returns at once if Watched is not set or the
// DaemonSet is not known.
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

// Gone reports whether the DaemonSet no longer has a pod on the node.
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
		// After an update, the next pod needs everything that was published. After a deletion, a
		// person has to remove it. The agent cannot know which of the two has happened.
		log.Warn("cannot read the DaemonSet of this agent, keeping the published state; if the DaemonSet was deleted, remove the state by hand, as the documentation of the agent describes", "err", err)
	case reason != "":
		o.log.Info("the DaemonSet no longer has a pod on this node, removing the published state", "reason", reason)
	}
	return reason != ""
}

// deletedSet is the reason for a DaemonSet that is being deleted or does not exist.
const deletedSet = "it is deleted"

// reason returns why the DaemonSet no longer has a pod on the node, "" if it has one.
func (o *Owner) reason(ctx context.Context) (string, error) {
	seen, gone := o.watched()
	switch {
	case gone:
		return deletedSet, nil
	case o.Watched && !seen:
		return "", nil // Its name may be wrong.
	}
	// The watch may be late or interrupted, so ask the API server.
	reason, err := o.readReason(ctx)
	limit := time.Duration(0)
	if o.Watched && (apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err)) {
		limit = watchLimit
	}
	if o.reported(ctx, limit) {
		return deletedSet, nil
	}
	return reason, err
}

// reported waits until the watch has reported the deletion. It returns false after the time limit.
func (o *Owner) reported(ctx context.Context, limit time.Duration) bool {
	err := wait.PollUntilContextTimeout(ctx, watchPeriod, limit, true, func(context.Context) (bool, error) {
		_, gone := o.watched()
		return gone, nil
	})
	return err == nil
}

// watched returns the state that the watch has delivered.
func (o *Owner) watched() (seen, gone bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.seen, o.gone
}

// readReason returns the reason according to the API server. It does not use the watch.
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
	// A Node that does not exist matches no selector. It needs no withdrawal.
	there, err := o.selects(ctx, "")
	if !there || err != nil {
		return "", err
	}
	return "it no longer selects this node", nil
}

// selects reports whether the agent's Node exists and matches a label selector. An empty selector
// matches every Node.
func (o *Owner) selects(ctx context.Context, selector string) (bool, error) {
	node := o.client.Node()
	found, err := kube.List[struct{}](ctx, o.client, kube.Query{Object: node, LabelSelector: selector, Metadata: true})
	if err != nil {
		return false, fmt.Errorf("match the labels of the node %s with the selector %q: %w", node.Name, selector, err)
	}
	return len(found) > 0, nil
}
