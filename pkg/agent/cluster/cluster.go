// Package cluster connects an agent to the API server, as the flags that all
// such agents share describe it. It is the one place where flags become a client.
package cluster

import (
	"context"
	"errors"
	"log/slog"

	"github.com/urfave/cli/v2"

	"outrigger.dev/pkg/agent"
	"outrigger.dev/pkg/kube"
)

// NodeNameFlag returns --node-name, which Open and NodeName read.
func NodeNameFlag() cli.Flag {
	return &cli.StringFlag{
		Name: "node-name", EnvVars: []string{"NODE_NAME"},
		Usage: "`NAME` of the Node object of this node",
	}
}

// EventsFlag returns --report-events; events says which Events the agent sends.
func EventsFlag(events string) cli.Flag {
	return &cli.BoolFlag{
		Name: "report-events", EnvVars: []string{"REPORT_EVENTS"},
		Usage: "report " + events + " as Events of the Node",
	}
}

// KubeconfigFlag returns --kubeconfig, for agents that also run outside of a pod.
func KubeconfigFlag() cli.Flag {
	return &cli.PathFlag{
		Name: "kubeconfig", EnvVars: []string{"KUBECONFIG"},
		Usage: "kubeconfig `FILE` for the API server; if empty, the pod's service account is used",
	}
}

// NodeName returns --node-name for an agent that cannot work without it.
func NodeName(c *cli.Context) (string, error) {
	if name := c.String("node-name"); name != "" {
		return name, nil
	}
	return "", agent.Usagef("flag --node-name is not set: set it to the name of this Node (NODE_NAME, from spec.nodeName)")
}

// API is an agent's access to the API server. A nil *API belongs to an agent that
// has none: it knows no labels of its Node, and Events go nowhere.
type API struct {
	*kube.Client
	// events is nil without --report-events.
	events *kube.Events
}

// Open returns the access that the flags describe, and does not connect. The API
// server knows the agent as manager: as the field manager of what it applies and
// as the source of its Events. Open returns kube.ErrNotInCluster for a process
// that runs in no pod.
func Open(c *cli.Context, manager string, log *slog.Logger) (*API, error) {
	client, err := kube.New(kube.Config{Node: c.String("node-name"), Agent: manager, Log: log})
	switch {
	case errors.Is(err, kube.ErrNotInCluster):
		return nil, err
	case err != nil:
		return nil, agent.Usagef("%s", err)
	}
	a := &API{Client: client}
	if c.Bool("report-events") {
		a.events = kube.NewEvents(client)
	}
	return a, nil
}

// WatchLabels delivers the labels of the agent's Node, now and after each change,
// until ctx ends. A nil API returns at once, without labels.
func (a *API) WatchLabels(ctx context.Context, deliver func(map[string]string)) error {
	if a == nil {
		return nil
	}
	kube.Watch(ctx, a.Client, kube.Query{Object: a.Node(), Metadata: true}, func(nodes []labelled) {
		for _, n := range nodes {
			deliver(n.Metadata.Labels)
		}
	})
	return nil
}

// labelled is the part of a Node that WatchLabels reads.
type labelled struct {
	Metadata struct {
		Labels map[string]string `json:"labels"`
	} `json:"metadata"`
}

// Failing returns why changes of the objects that the agent watches are not seen, nil
// if they are. It is for /readyz.
func (a *API) Failing() error {
	if a == nil {
		return nil
	}
	return a.Client.Failing()
}

// Event queues an Event of the Node, if the agent reports Events.
func (a *API) Event(ev kube.Event) {
	if a != nil && a.events != nil {
		a.events.Report(ev)
	}
}

// Run sends Events until ctx ends. Without --report-events it returns at once.
func (a *API) Run(ctx context.Context) error {
	if a == nil || a.events == nil {
		return nil
	}
	return a.events.Run(ctx)
}
