// Package cluster connects an agent to the API server, as configured by flags that all such agents
// share. Only this package turns these flags into a client.
package cluster

import (
	"context"
	"errors"
	"log/slog"

	"github.com/urfave/cli/v2"

	"outrigger.dev/pkg/cmdline"
	"outrigger.dev/pkg/cmdline/category"
	"outrigger.dev/pkg/kube"
)

// Settings holds the values of the flags of an agent in a cluster. An agent has only the flags that
// it needs.
type Settings struct {
	// NodeName is the name of the agent's Node.
	NodeName string
	// Kubeconfig is the path of a kubeconfig. If empty, the pod's service account is used.
	Kubeconfig string
	// Events is set if the agent sends Events of the Node.
	Events bool
	// Namespace and DaemonSet name the agent's DaemonSet.
	Namespace, DaemonSet string
}

// NodeNameFlag returns --node-name.
func (s *Settings) NodeNameFlag(aliases ...string) cli.Flag {
	return &cli.StringFlag{
		Name: "node-name", Aliases: aliases, EnvVars: []string{"NODE_NAME"}, Destination: &s.NodeName, Category: category.Kubernetes,
		Usage: "`NAME` of the Node object of this node",
	}
}

// KubeconfigFlag returns --kubeconfig.
func (s *Settings) KubeconfigFlag() cli.Flag {
	return &cli.PathFlag{
		Name: "kubeconfig", EnvVars: []string{"KUBECONFIG"}, Destination: &s.Kubeconfig, Category: category.Kubernetes,
		Usage: "kubeconfig `FILE` for the API server; if empty, the pod's service account is used",
	}
}

// EventsFlag returns --report-events. The parameter events describes the Events that the agent
// sends.
func (s *Settings) EventsFlag(events string) cli.Flag {
	return &cli.BoolFlag{
		Name: "report-events", EnvVars: []string{"REPORT_EVENTS"}, Destination: &s.Events, Category: category.Kubernetes,
		Usage: "report " + events + " as Events of the Node",
	}
}

// NamespaceFlag returns --namespace. The parameter describes the content of the namespace.
func (s *Settings) NamespaceFlag(of string) cli.Flag {
	return &cli.StringFlag{
		Name: "namespace", EnvVars: []string{"NAMESPACE"}, Value: "default", Destination: &s.Namespace, Category: category.Kubernetes,
		Usage: "`NAMESPACE` of " + of,
	}
}

// DaemonSetFlag returns --daemonset-name. The parameter describes how the agent uses the DaemonSet.
func (s *Settings) DaemonSetFlag(use string) cli.Flag {
	return &cli.StringFlag{
		Name: "daemonset-name", EnvVars: []string{"DAEMONSET_NAME"}, Destination: &s.DaemonSet, Category: category.Kubernetes,
		Usage: "`NAME` of the agent's DaemonSet" + use,
	}
}

// OwnerFlag returns DaemonSetFlag for an agent that withdraws its published state. The parameter is
// the condition under which the agent does so.
func (s *Settings) OwnerFlag(when string) cli.Flag {
	return s.DaemonSetFlag(": if the DaemonSet " + when + " when the agent stops, the agent removes its published state; if empty, the agent never removes it")
}

// Named returns an error if NodeName is empty. It is for agents that cannot work without it.
func (s *Settings) Named() error {
	if s.NodeName != "" {
		return nil
	}
	return cmdline.Usagef("flag --node-name is not set: set it to the name of this Node (NODE_NAME, from spec.nodeName)")
}

// API is an agent's access to the API server. A nil *API is valid and stands for no access: it
// delivers no labels of the Node, and drops Events.
type API struct {
	*kube.Client
	// events is nil for an agent that does not send Events.
	events *kube.Events
}

// Open returns the access that the settings describe, and does not connect. manager is the field
// manager of the objects that the agent applies, and the source of its Events. Open returns
// kube.ErrNotInCluster for a process that does not run in a pod and has no kubeconfig.
func (s *Settings) Open(manager string, log *slog.Logger) (*API, error) {
	client, err := kube.New(kube.Config{Kubeconfig: s.Kubeconfig, Node: s.NodeName, Agent: manager, Log: log})
	switch {
	case errors.Is(err, kube.ErrNotInCluster):
		return nil, err
	case err != nil && s.Kubeconfig != "":
		return nil, cmdline.Usagef("flag --kubeconfig: %w", err)
	case err != nil:
		return nil, cmdline.Usagef("%w", err)
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

// Failing returns why the agent does not see changes of the objects that it watches, nil if it sees
// them. It is for /readyz.
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

// Run sends Events until ctx ends. It returns at once if the agent sends no Events.
func (a *API) Run(ctx context.Context) error {
	if a == nil || a.events == nil {
		return nil
	}
	return a.events.Run(ctx)
}
