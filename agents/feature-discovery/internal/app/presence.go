package app

import (
	"context"
	"errors"
	"log/slog"
	"os"

	"outrigger.dev/agents/feature-discovery/internal/label"
	"outrigger.dev/agents/feature-discovery/internal/machine"
	"outrigger.dev/agents/feature-discovery/internal/presence"
	"outrigger.dev/pkg/agent"
	"outrigger.dev/pkg/cmdline"
	"outrigger.dev/pkg/kube"
	"outrigger.dev/pkg/nodestate"
	"outrigger.dev/pkg/pci"
)

// presenceName is the field manager of the presence part. The labels part has another field
// manager, because server-side apply removes fields that a field manager no longer names.
const presenceName = name + "-presence"

func (s *settings) newPresence(log *slog.Logger) (*agent.Agent, error) {
	if p := s.publish; p != "" && p != publishNode {
		return nil, cmdline.Usagef("flag --publish: %s cannot be combined with --presence, which writes only to the Node object: remove one of the flags; Node Feature Discovery has its own labels for presence", p)
	}
	api, err := s.cluster.Open(presenceName, log)
	if errors.Is(err, kube.ErrNotInCluster) {
		return nil, cmdline.Usagef("flag --presence: it needs the API server, and %s", err)
	}
	if err != nil {
		return nil, err
	}
	root, sys := s.systemRoot(), s.gpus.Host.SysRoot
	node := nodestate.NewKeeper(api.Client, nodestate.Config{Yields: label.Yields, Excludes: label.Excludes, Log: log})
	p := presence.New(presence.Config{
		Scan:   func() ([]pci.Device, error) { return pci.Scan(sys) },
		Watch:  func(ctx context.Context, changed func()) { pci.Watch(ctx, sys, log, changed) },
		System: func() (machine.System, error) { return machine.ReadSystem(root) },
		Node:   node,
		Grace:  presence.Grace,
		Log:    log,
	})
	return &agent.Agent{
		Parts: []agent.Part{
			{
				Name: "presence", Run: p.Run, Ready: p.Ready, Reload: p.Reload,
				Withdraw: func(ctx context.Context) error { return node.Withdraw(ctx, nodestate.Published{Metadata: true}) },
			},
			{Name: "watches", Ready: api.Failing},
		},
		Owner:     s.owner(api, log),
		Effective: []slog.Attr{slog.String(agent.SettingKey("host-root"), root)},
	}, nil
}

// systemRoot returns the folder that contains etc/os-release.
func (s *settings) systemRoot() string {
	if s.hostRoot != "" {
		return s.hostRoot
	}
	if fi, err := os.Stat(ctrHostRoot); err != nil || !fi.IsDir() {
		return "/"
	}
	return ctrHostRoot
}
