package cluster

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/urfave/cli/v2"

	"outrigger.dev/pkg/kube"
)

// withdrawLimit bounds what is done after the signal to stop. The pod has a grace period of
// 5 s.
const withdrawLimit = 4 * time.Second

// OwnerFlag returns --daemonset-name, which OwnerOf reads, for an agent that also has
// --namespace. when is the condition under which the agent removes what it has published.
func OwnerFlag(when string) cli.Flag {
	return &cli.StringFlag{
		Name: "daemonset-name", EnvVars: []string{"DAEMONSET_NAME"},
		Usage: "`NAME` of the agent's DaemonSet: if that " + when + " when the agent stops, the agent removes what it has published; if empty, nothing is ever removed",
	}
}

// Owner is the DaemonSet to which the agent's pod belongs. Its name is empty if it is not
// known.
type Owner struct {
	client *kube.Client
	set    kube.Object
	log    *slog.Logger
}

// OwnerOf returns the DaemonSet that the flags name. It is not known to an agent without an
// API server, where api is nil.
func OwnerOf(c *cli.Context, api *API, log *slog.Logger) Owner {
	if api == nil {
		return Owner{}
	}
	return Owner{client: api.Client, log: log, set: kube.Object{
		API: "apps/v1", Resource: "daemonsets", Namespace: c.String("namespace"), Name: c.String("daemonset-name"),
	}}
}

// IfDeleted calls withdraw if the DaemonSet is deleted. If the pod ends for any other reason,
// such as an update or the drain of its node, what the agent has published stays. ctx may
// have ended.
func (o Owner) IfDeleted(ctx context.Context, withdraw func(context.Context) error) {
	o.ifGone(ctx, withdraw, func(ctx context.Context) (string, error) {
		deleted, err := o.client.Deleted(ctx, o.set)
		if deleted {
			return deletedSet, err
		}
		return "", err
	})
}

// IfLeft calls withdraw if the DaemonSet is deleted, or if its pods are not for the agent's node any
// more, because the labels of the node or the nodeSelector and affinity of the pods have changed.
// Otherwise it is as IfDeleted. It needs the verb get on the DaemonSet, and list on nodes.
func (o Owner) IfLeft(ctx context.Context, withdraw func(context.Context) error) {
	o.ifGone(ctx, withdraw, o.left)
}

// ifGone calls withdraw if gone says what has become of the DaemonSet.
func (o Owner) ifGone(ctx context.Context, withdraw func(context.Context) error, gone func(context.Context) (string, error)) {
	if o.set.Name == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), withdrawLimit)
	defer cancel()
	what, err := gone(ctx)
	switch {
	case err != nil:
		o.log.Warn("cannot ask whether the DaemonSet of this agent is deleted, leaving what it has published; if it is, remove that by hand, as the documentation of the agent says", "err", err)
	case what != "":
		o.log.Info("the DaemonSet has no pod on this node any more, removing what this agent has published", "reason", what)
		if err := withdraw(ctx); err != nil {
			o.log.Error("cannot remove what this agent has published: remove it by hand, as the documentation of the agent says", "err", err)
		}
	}
}

// deletedSet is what has become of a DaemonSet that is being deleted or gone.
const deletedSet = "it is deleted"

// left says why the DaemonSet has no pod on the node any more, "" if it has.
func (o Owner) left(ctx context.Context) (string, error) {
	var set struct {
		Metadata struct {
			DeletionTimestamp string `json:"deletionTimestamp"`
		} `json:"metadata"`
		Spec struct {
			Template struct {
				Spec placement `json:"spec"`
			} `json:"template"`
		} `json:"spec"`
	}
	err := o.client.Get(ctx, o.set, &set)
	switch {
	case kube.Missing(err), set.Metadata.DeletionTimestamp != "":
		return deletedSet, nil
	case err != nil:
		return "", fmt.Errorf("read the DaemonSet %s/%s: %w", o.set.Namespace, o.set.Name, err)
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
func (o Owner) selects(ctx context.Context, selector string) (bool, error) {
	node := o.client.Node()
	found, err := kube.List[struct{}](ctx, o.client, kube.Query{Object: node, LabelSelector: selector, Metadata: true})
	if err != nil {
		return false, fmt.Errorf("ask whether the labels of the node %s match %q: %w", node.Name, selector, err)
	}
	return len(found) > 0, nil
}
