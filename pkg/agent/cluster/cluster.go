// Package cluster connects an agent to the API server, as the flags that all
// such agents share describe it. It is the one place where flags become a client.
package cluster

import (
	"context"
	"errors"
	"log/slog"

	"github.com/urfave/cli/v2"

	"outrigger.dev/pkg/cmdline"
	"outrigger.dev/pkg/kube"
)

// Settings is what the flags of an agent in a cluster set. An agent has those flags that it needs.
type Settings struct {
	// NodeName is the name of the agent's Node.
	NodeName string
	// Events is set if the agent sends Events of the Node.
	Events bool
	// Namespace and DaemonSet name the agent's DaemonSet.
	Namespace, DaemonSet string
}

// NodeNameFlag returns --node-name.
func (s *Settings) NodeNameFlag(aliases ...string) cli.Flag {
	return &cli.StringFlag{
		Name: "node-name", Aliases: aliases, EnvVars: []string{"NODE_NAME"}, Destination: &s.NodeName,
		Usage: "`NAME` of the Node object of this node",
	}
}

// EventsFlag returns --report-events; events says which Events the agent sends.
func (s *Settings) EventsFlag(events string) cli.Flag {
	return &cli.BoolFlag{
		Name: "report-events", EnvVars: []string{"REPORT_EVENTS"}, Destination: &s.Events,
		Usage: "report " + events + " as Events of the Node",
	}
}

// NamespaceFlag returns --namespace; of says what is in the namespace.
func (s *Settings) NamespaceFlag(of string) cli.Flag {
	return &cli.StringFlag{
		Name: "namespace", EnvVars: []string{"NAMESPACE"}, Value: "default", Destination: &s.Namespace,
		Usage: "`NAMESPACE` of " + of,
	}
}

// DaemonSetFlag returns --daemonset-name; use says what the agent does with the DaemonSet.
func (s *Settings) DaemonSetFlag(use string) cli.Flag {
	return &cli.StringFlag{
		Name: "daemonset-name", EnvVars: []string{"DAEMONSET_NAME"}, Destination: &s.DaemonSet,
		Usage: "`NAME` of the agent's DaemonSet" + use,
	}
}

// OwnerFlag returns DaemonSetFlag for an agent that withdraws. when is the condition under which
// it removes what it has published.
func (s *Settings) OwnerFlag(when string) cli.Flag {
	return s.DaemonSetFlag(": if that " + when + " when the agent stops, the agent removes what it has published; if empty, nothing is ever removed")
}

// Named returns an error without NodeName, for an agent that cannot work without it.
func (s *Settings) Named() error {
	if s.NodeName != "" {
		return nil
	}
	return cmdline.Usagef("flag --node-name is not set: set it to the name of this Node (NODE_NAME, from spec.nodeName)")
}

// API is an agent's access to the API server. A nil *API belongs to an agent that
// has none: it knows no labels of its Node, and Events go nowhere.
type API struct {
	*kube.Client
	// events is nil for an agent that sends none.
	events *kube.Events
}

// Open returns the access that the settings describe, and does not connect. The API
// server knows the agent as manager: as the field manager of what it applies and
// as the source of its Events. Open returns kube.ErrNotInCluster for a process
// that runs in no pod.
func (s *Settings) Open(manager string, log *slog.Logger) (*API, error) {
	client, err := kube.New(kube.Config{Node: s.NodeName, Agent: manager, Log: log})
	switch {
	case errors.Is(err, kube.ErrNotInCluster):
		return nil, err
	case err != nil:
		return nil, cmdline.Usagef("%s", err)
	}
	a := &API{Client: client}
	if s.Events {
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
	kube.Watch(ctx, a.Client, kube.Query{Object: a.Node(), Metadata: true}, func(nodes []nodeLabels) {
		for _, n := range nodes {
			deliver(n.Metadata.Labels)
		}
	})
	return nil
}

// nodeLabels is the part of a Node that WatchLabels reads.
type nodeLabels struct {
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

// Run sends Events until ctx ends. If the agent sends none, it returns at once.
func (a *API) Run(ctx context.Context) error {
	if a == nil || a.events == nil {
		return nil
	}
	return a.events.Run(ctx)
}
