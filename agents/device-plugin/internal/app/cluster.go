package app

import (
	"context"
	"errors"
	"log/slog"

	"github.com/urfave/cli/v2"

	"outrigger.dev/agents/device-plugin/internal/inventory"
	"outrigger.dev/pkg/agent"
	"outrigger.dev/pkg/agent/configfile"
	"outrigger.dev/pkg/kube"
)

// api is what the plugin has of the API server, which is nothing where it runs
// in no cluster.
type api struct {
	client *kube.Client
	events *kube.Events
	log    *slog.Logger
}

// cluster returns what the flags ask for of the API server: the label that
// chooses the config file, and Events.
func cluster(c *cli.Context, log *slog.Logger) (*api, error) {
	a := &api{log: log}
	wanted := c.Bool("report-events") || c.Path("config-dir") != ""
	if !wanted {
		return a, nil
	}
	client, err := kube.New(kube.Config{
		Node: c.String("node-name"), Agent: name, Log: log,
	})
	switch {
	case errors.Is(err, kube.ErrNotInCluster):
		log.Info("neither the node's label is followed nor are Events sent", "err", err)
		return a, nil
	case err != nil:
		return nil, agent.Usagef("%s", err)
	}
	a.client = client
	if c.Bool("report-events") {
		a.events = kube.NewEvents(client)
	}
	return a, nil
}

// label returns what gives the value of a label of the own Node.
func (a *api) label(ctx context.Context) func(key string) (string, error) {
	return func(key string) (string, error) {
		if a.client == nil {
			return "", nil
		}
		return configfile.FirstLabel(ctx, a.client, key, a.log), ctx.Err()
	}
}

func (a *api) labels() configfile.Labels {
	if a.client == nil {
		return nil
	}
	return a.client
}

func (a *api) reporter() inventory.Reporter {
	if a.events == nil {
		return nil
	}
	return reporter{events: a.events}
}

func (a *api) run(ctx context.Context) error {
	if a.events == nil {
		return nil
	}
	return a.events.Run(ctx)
}
