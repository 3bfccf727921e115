package podload

import (
	"fmt"
	"log/slog"

	"github.com/urfave/cli/v2"

	"outrigger.dev/pkg/kube"
	"outrigger.dev/pkg/podresources"
	"outrigger.dev/pkg/scenario"
)

// Settings holds the values of the flags for the load of pods.
type Settings struct{ standard, socket string }

// Flags returns the flags.
func (s *Settings) Flags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{
			Name: "default-utilization", EnvVars: []string{"DEFAULT_UTILIZATION"}, Destination: &s.standard,
			Usage: "`PERCENT` or range, such as 60-90, of the GPUs of a pod without the annotation " + Prefix + utilization + "; if empty, such a pod changes no values of its GPUs",
		},
		&cli.PathFlag{
			Name: "pod-resources-kubelet-socket", EnvVars: []string{"POD_RESOURCES_KUBELET_SOCKET"}, Value: podresources.Socket, Destination: &s.socket,
			Usage: "`SOCKET` of the kubelet's PodResources API, which lists the GPUs of each container",
		},
	}
}

// Target is the node whose pods are followed.
type Target struct {
	// Root is the folder of the simulated node, and Name is the name of the Node object.
	Root, Name string
	// Client is the client of the API server.
	Client *kube.Client
	// Event reports an Event of the Node.
	Event func(kube.Event)
}

// Open returns the Follower that the flags describe. It does not connect yet.
func (s *Settings) Open(to Target, log *slog.Logger) (*Follower, error) {
	cfg := Config{Root: to.Root, NodeName: to.Name, Client: to.Client, Event: to.Event, Log: log}
	if s.standard != "" {
		r, err := scenario.ParseRange(s.standard, scenario.Percent)
		if err != nil {
			return nil, fmt.Errorf("flag --default-utilization: %w", err)
		}
		cfg.Default = &r
	}
	kubelet, err := podresources.New(podresources.Config{Socket: s.socket})
	if err != nil {
		return nil, fmt.Errorf("flag --pod-resources-kubelet-socket: %w", err)
	}
	cfg.Kubelet = kubelet
	return New(cfg), nil
}
