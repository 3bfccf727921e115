package cluster

import (
	"context"
	"log/slog"
	"time"

	"github.com/urfave/cli/v2"

	"outrigger.dev/pkg/kube"
)

// withdrawLimit bounds what is done after the signal to stop. The pod has a grace period of
// 5 s.
const withdrawLimit = 4 * time.Second

// OwnerFlag returns --daemonset-name, which OwnerOf reads, for an agent that also has
// --namespace.
func OwnerFlag() cli.Flag {
	return &cli.StringFlag{
		Name: "daemonset-name", EnvVars: []string{"DAEMONSET_NAME"},
		Usage: "`NAME` of the agent's DaemonSet: if that is deleted when the agent stops, the agent removes what it has published; if empty, nothing is ever removed",
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
	if o.set.Name == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), withdrawLimit)
	defer cancel()
	deleted, err := o.client.Deleted(ctx, o.set)
	switch {
	case err != nil:
		o.log.Warn("cannot ask whether the DaemonSet of this agent is deleted, leaving what it has published; if it is, remove that by hand, as the documentation of the agent says", "err", err)
	case deleted:
		o.log.Info("the DaemonSet of this agent is deleted, removing what it has published")
		if err := withdraw(ctx); err != nil {
			o.log.Error("cannot remove what this agent has published: remove it by hand, as the documentation of the agent says", "err", err)
		}
	}
}
