// Package nri gives containers their GPUs through NRI, the plugin interface of containerd and
// CRI-O. While the engine creates a container, the Plugin adds the GPUs that the kubelet
// allocated to the container, as the CDI specs of the node describe them. It does not add a GPU
// that is named only in annotations, variables or the image.
package nri

import (
	"context"
	"errors"
	"log/slog"

	"outrigger.dev/agents/container-toolkit/internal/inject"
	"outrigger.dev/agents/container-toolkit/internal/toolconfig"
	"outrigger.dev/pkg/nri"
	"outrigger.dev/pkg/podresources"
)

// Name is the name of the plugin. Administrators use it in required_plugins of the engine's
// default validator.
const Name = "nvidia-container-toolkit"

// Config describes a Plugin.
type Config struct {
	// Index is the index of the plugin, "00" to "99". Engines call plugins in ascending order.
	Index string
	// Socket is the socket of the engine's NRI, as this process sees it.
	Socket string
	// Kubelet returns the devices that are allocated to the containers of a pod. Run closes it.
	Kubelet *podresources.Client
	// Tools is the config of the tools. The plugin uses the same sections as the mode cdi.
	Tools *toolconfig.Config
	// Kind is the kind of the CDI devices. Folder contains their specs.
	Kind, Folder string
	// Stat returns a device node of the host, without following a link.
	Stat func(path string) (inject.Node, error)
	// Report is called with nil when the engine begins to call the plugin, and with the
	// cause when the engine does not call it.
	Report func(error)
	Log    *slog.Logger
}

// Plugin is the plugin.
type Plugin struct {
	Config
	tools toolconfig.Config
}

// New returns a Plugin. It does nothing before Run.
func New(c Config) *Plugin {
	p := &Plugin{Config: c, tools: *c.Tools}
	// The plugin makes a request for each container, which names only allocated devices.
	p.tools.AcceptVariable, p.tools.AcceptMounts, p.tools.SwarmResources = true, false, nil
	p.tools.Runtime.Mode = toolconfig.ModeCDI
	p.tools.Runtime.CDI.DefaultKind, p.tools.Runtime.CDI.SpecDirs = c.Kind, []string{c.Folder}
	return p
}

// Run serves the engine until ctx ends, and connects again when the engine has restarted.
func (p *Plugin) Run(ctx context.Context) error {
	return errors.Join(nri.Run(ctx, nri.Config{
		Name: Name, Index: p.Index, Socket: p.Socket, Report: p.Report, Log: p.Log,
		Plugin: func(s *nri.Session) any { return &handler{Session: s, Plugin: p} },
	}), p.Kubelet.Close())
}
