package app

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

// owner is the DaemonSet to which the agent's pod belongs. Its name is empty if it is not
// known.
type owner struct {
	client *kube.Client
	set    kube.Object
	log    *slog.Logger
}

func ownerOf(c *cli.Context, client *kube.Client, log *slog.Logger) owner {
	return owner{client: client, log: log, set: kube.Object{
		API: "apps/v1", Resource: "daemonsets", Namespace: c.String("namespace"), Name: c.String("daemonset-name"),
	}}
}

// ifDeleted calls withdraw if the DaemonSet is deleted. If the pod ends for any other reason,
// such as an update or the drain of its node, what the agent has published stays. ctx may
// have ended.
func (o owner) ifDeleted(ctx context.Context, withdraw func(context.Context) error) {
	if o.set.Name == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), withdrawLimit)
	defer cancel()
	deleted, err := o.client.Deleted(ctx, o.set)
	switch {
	case err != nil:
		o.log.Warn("cannot ask whether the DaemonSet of this agent is deleted, leaving what is published; docs/feature-discovery.md has the commands that remove it", "err", err)
	case deleted:
		o.log.Info("the DaemonSet of this agent is deleted, removing what is published")
		if err := withdraw(ctx); err != nil {
			o.log.Error("cannot remove what is published; docs/feature-discovery.md has the commands", "err", err)
		}
	}
}
