package app

import (
	"fmt"
	"log/slog"
	"path/filepath"

	securejoin "github.com/cyphar/filepath-securejoin"
	"github.com/urfave/cli/v2"

	"outrigger.dev/agents/container-toolkit/internal/generate"
	"outrigger.dev/agents/container-toolkit/internal/inject"
	"outrigger.dev/agents/container-toolkit/internal/nri"
	"outrigger.dev/agents/container-toolkit/internal/shim"
	"outrigger.dev/agents/container-toolkit/internal/toolconfig"
	"outrigger.dev/agents/container-toolkit/internal/upkeep"
	"outrigger.dev/pkg/agent"
	"outrigger.dev/pkg/cmdline"
	connection "outrigger.dev/pkg/nri"
	"outrigger.dev/pkg/podresources"
)

// flags returns the flags of the NRI plugin.
func (s *nriSettings) flags() []cli.Flag {
	return []cli.Flag{
		&cli.BoolFlag{
			Name: "enable-nri-plugin", Aliases: []string{"p"}, EnvVars: []string{"ENABLE_NRI_PLUGIN"}, Destination: &s.enabled,
			Usage: "give containers their allocated GPUs through the NRI of containerd or CRI-O, without changing the engine's config",
		},
		cmdline.Check(&cli.StringFlag{
			Name: "nri-plugin-index", EnvVars: []string{"NRI_PLUGIN_INDEX"}, Value: "10", Destination: &s.index,
			Usage: "two `DIGITS`: the order of this plugin among the NRI plugins of the engine",
		}, "two digits, such as 10", func(v string) bool { return connection.CheckIndex(v) == nil }),
		cmdline.Absolute(&cli.PathFlag{
			Name: "nri-socket", EnvVars: []string{"NRI_SOCKET"}, Value: connection.Socket, Destination: &s.socket,
			Usage: "`SOCKET` of the engine's NRI on the host",
		}),
		cmdline.Absolute(&cli.PathFlag{
			Name: "pod-resources-socket", EnvVars: []string{"POD_RESOURCES_SOCKET"}, Value: "/var/lib/kubelet/pod-resources/kubelet.sock", Destination: &s.kubelet,
			Usage: "`SOCKET` on the host of the kubelet's pod resources API, which lists the GPUs of each container",
		}),
		agent.Ignored("nri-namespace", "NRI_NAMESPACE", "the plugin reads no annotations"),
		agent.Ignored("nri-management-cdi-device-namespaces", "NRI_MANAGEMENT_CDI_DEVICE_NAMESPACES", "the plugin reads no annotations, and gives no management devices"),
	}
}

// nriSettings holds the settings of the NRI plugin. Paths are paths on the host.
type nriSettings struct {
	enabled                bool
	index, socket, kubelet string
}

// checkNRI rejects settings that the plugin does not support.
func (s *settings) checkNRI() error {
	switch {
	case s.nri.enabled && !s.cdi:
		return cmdline.Usagef("flag --enable-nri-plugin: the plugin needs CDI specs: set --cdi-enabled too")
	case s.nri.enabled && s.once:
		return cmdline.Usagef("flag --enable-nri-plugin: the plugin runs in the agent: remove --no-daemon")
	default:
		return nil
	}
}

// nriPlugin returns the NRI plugin, or nil if it is turned off.
func (s *settings) nriPlugin(status *upkeep.Status, log *slog.Logger) (*nri.Plugin, error) {
	if !s.nri.enabled {
		return nil, nil //nolint:nilnil // nil means that the plugin is turned off
	}
	tools, _, err := toolconfig.Parse(s.config)
	if err != nil {
		return nil, fmt.Errorf("config of the tools: %w", err)
	}
	socket, err := securejoin.SecureJoin(s.engine.HostRoot, s.nri.socket)
	if err != nil {
		return nil, fmt.Errorf("find the socket of NRI: %w", err)
	}
	path, err := securejoin.SecureJoin(s.engine.HostRoot, s.nri.kubelet)
	if err != nil {
		return nil, fmt.Errorf("find the socket of the kubelet: %w", err)
	}
	kubelet, err := podresources.New(podresources.Config{Socket: path})
	if err != nil {
		return nil, fmt.Errorf("socket of the kubelet: %w", err)
	}
	return nri.New(nri.Config{
		Index: s.nri.index, Socket: socket, Kubelet: kubelet,
		Tools: tools, Kind: s.kinds.Kind(generate.GPUs), Folder: s.cdiDir, Stat: s.hostNode,
		Report: func(err error) { status.Set(upkeep.NRI, err) }, Log: log,
	}), nil
}

// hostNode returns the device node at a path of the host.
func (s *settings) hostNode(path string) (inject.Node, error) {
	dir, err := securejoin.SecureJoin(s.engine.HostRoot, filepath.Dir(path))
	if err != nil {
		return inject.Node{}, fmt.Errorf("find the device node %s of the host: %w", path, err)
	}
	return shim.HostNode(filepath.Join(dir, filepath.Base(path)))
}
