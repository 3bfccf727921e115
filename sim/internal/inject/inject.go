// Package inject shows the simulated GPUs of a node in the /proc and /sys of its containers, which are
// file systems of their own. A kernel with NVIDIA's driver shows the GPUs in each of them. While the
// engine creates a container, a plugin of its NRI adds a hook that mounts the files of the node: runc
// permits no mount below /proc in a container's config. All containers get the hook, because all
// containers of a node with GPUs see them. It adds no device and no library.
package inject

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/containerd/nri/pkg/api"

	"outrigger.dev/pkg/kube"
	"outrigger.dev/pkg/nri"
)

const (
	// name is the name of the plugin, and index its place after plugins of devices.
	name, index = "gpu-sim", "90"
	// hookLimit limits the time of the hook, in seconds.
	hookLimit = 10
)

// Config describes a Plugin.
type Config struct {
	// Root is the folder of the simulated node, which has the same path on the host.
	Root string
	// Hook is the hook in the driver root, as this process and the host see it. It exists while the
	// node has GPUs.
	Hook string
	// Socket is the socket of the engine's NRI. If it is empty, the plugin does nothing.
	Socket string
	// Event reports an Event of the Node.
	Event func(kube.Event)
	Log   *slog.Logger
}

// Plugin is the plugin.
type Plugin struct {
	Config
	reported sync.Once
}

// New returns a Plugin. It does nothing before Run.
func New(c Config) *Plugin { return &Plugin{Config: c} }

// Run serves the engine until ctx ends.
func (p *Plugin) Run(ctx context.Context) error {
	if p.Socket == "" {
		return nil
	}
	return nri.Run(ctx, nri.Config{
		Name: name, Index: index, Socket: p.Socket, Report: p.report, Log: p.Log,
		Plugin: func(s *nri.Session) any { return handler{s, p} },
	})
}

// report sends an Event if the engine does not answer the first attempt while the node has GPUs: it has no
// NRI. Later errors are in the log, because an engine that restarts causes them too.
func (p *Plugin) report(err error) {
	if err != nil && !p.hasGPUs() {
		return
	}
	p.reported.Do(func() {
		if err != nil {
			p.Event(kube.Event{
				Warning: true, Reason: "GPUsNotInContainers",
				Message: "containers of this node do not see the simulated GPUs in their /proc and /sys, unless they mount those of the host: " + err.Error() +
					"; if the node has no NRI, set nri.enabled=false of the chart gpu-sim, or sim.nri.enabled=false of the chart outrigger",
			})
		}
	})
}

// hasGPUs reports whether the node has GPUs.
func (p *Plugin) hasGPUs() bool {
	_, err := os.Stat(p.Hook)
	return err == nil
}

// handler handles the requests of one session.
type handler struct {
	*nri.Session
	*Plugin
}

// CreateContainer returns the hook.
func (h handler) CreateContainer(_ context.Context, _ *api.PodSandbox, c *api.Container) (*api.ContainerAdjustment, []*api.ContainerUpdate, error) {
	if h.simulates(c) {
		return nil, nil, nil
	}
	if !h.hasGPUs() {
		return nil, nil, nil
	}
	a := &api.ContainerAdjustment{}
	a.AddHooks(&api.Hooks{CreateContainer: []*api.Hook{{
		// Without variables of its own, the hook could get those of the image.
		Path: h.Hook, Args: []string{"gpu-sim-hook", h.Root}, Env: []string{"PATH=/usr/bin:/bin"}, Timeout: api.Int(hookLimit),
	}}})
	return a, nil, nil
}

// simulates reports whether a container is an agent of the simulator. It looks for real GPUs in its /proc and /sys.
func (h handler) simulates(c *api.Container) bool {
	return slices.ContainsFunc(c.GetMounts(), func(m *api.Mount) bool { return filepath.Clean(m.GetSource()) == filepath.Dir(h.Root) })
}
