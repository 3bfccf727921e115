package app

import (
	"slices"

	"github.com/urfave/cli/v2"

	"outrigger.dev/pkg/agent"
	"outrigger.dev/pkg/agent/cluster"
	"outrigger.dev/pkg/agent/configfile"
	"outrigger.dev/pkg/agent/gpuconfig"
	"outrigger.dev/pkg/config"
	"outrigger.dev/pkg/health"
)

// flags are the flags of the device plugin. Names, environment variables and
// defaults are those of NVIDIA's device plugin; docs/device-plugin.md lists where
// they differ.
func flags() []cli.Flag {
	return slices.Concat(
		agent.GPUFlags(),
		configfile.Flags(""),
		[]cli.Flag{
			cluster.NodeNameFlag(), cluster.EventsFlag("changes of GPUs"), cluster.OwnerFlag("is deleted"),
			&cli.StringFlag{
				Name: "namespace", EnvVars: []string{"NAMESPACE"}, Value: "default",
				Usage: "`NAMESPACE` of the DaemonSet",
			},
		},
		gpuconfig.Flags("", slices.Concat(config.DeviceOptions(), config.PluginOptions())...),
		[]cli.Flag{&cli.DurationFlag{
			Name: "health-quiet-window", EnvVars: []string{"HEALTH_QUIET_WINDOW"}, Value: health.DefaultQuiet,
			Usage: "`TIME` after which a GPU that answers is healthy again if it reported no other XID, for XIDs that need no reset",
		}},
	)
}

// aliases are names of flags in NVIDIA's device plugin and its config manager.
func aliases() map[string]string {
	names := configfile.Aliases()
	names["nvidia-ctk-path"] = "nvidia-cdi-hook-path"
	return names
}
