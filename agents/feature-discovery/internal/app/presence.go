package app

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"outrigger.dev/agents/feature-discovery/internal/machine"
	"outrigger.dev/agents/feature-discovery/internal/object"
	"outrigger.dev/agents/feature-discovery/internal/presence"
	"outrigger.dev/agents/feature-discovery/internal/publish"
	"outrigger.dev/pkg/agent"
	"outrigger.dev/pkg/agent/cluster"
	"outrigger.dev/pkg/kube"
	"outrigger.dev/pkg/pci"
)

// presenceName is the field manager of the presence part. It differs from that of
// the labels part, since server-side apply removes what a field manager no longer
// names.
const presenceName = name + "-presence"

func newPresence(c *cli.Context, log *slog.Logger) (*agent.Agent, error) {
	host, err := agent.HostOf(c)
	if err != nil {
		return nil, err
	}
	if p := c.String("publish"); p != "" && p != publishNode {
		return nil, agent.Usagef("flag --publish: %s does not go with --presence, which writes to the Node object: Node Feature Discovery has labels of its own for presence", p)
	}
	api, err := cluster.Open(c, presenceName, log)
	if errors.Is(err, kube.ErrNotInCluster) {
		return nil, agent.Usagef("flag --presence: it needs the API server, and %s", err)
	}
	if err != nil {
		return nil, err
	}
	root := hostRoot(c)
	node := publish.NewNode(publish.NodeConfig{
		API: object.New(api.Client), Manager: presenceName, Yields: yields, Time: time.Now,
		Log: log,
	})
	p := presence.New(presence.Config{
		Scan:   func() ([]pci.Device, error) { return pci.Scan(host.SysRoot) },
		Watch:  func(ctx context.Context, changed func()) { pci.Watch(ctx, host.SysRoot, log, changed) },
		System: func() (machine.System, error) { return machine.ReadSystem(root) },
		Node:   node,
		Grace:  presence.Grace,
		Log:    log,
	})
	return &agent.Agent{
		Parts: []agent.Part{
			{
				Name: "presence", Run: p.Run, Ready: p.Ready, Reload: p.Reload,
				Withdraw: func(ctx context.Context) error { return node.Withdraw(ctx, true, false) },
			},
			{Name: "watches", Ready: api.Failing},
		},
		Owner:     ownerOf(c, api, log),
		Effective: []slog.Attr{slog.String(agent.SettingKey("host-root"), root)},
	}, nil
}

// yields reports whether a label belongs to Node Feature Discovery, if that runs.
func yields(key string) bool { return strings.HasPrefix(key, "feature.node.kubernetes.io/") }
