package configfile

import (
	"slices"

	"github.com/urfave/cli/v2"

	"outrigger.dev/pkg/config"
)

// Flags say where the config file is. Each has its variable, and one more with
// the prefix, if that is not empty.
func Flags(prefix string) []cli.Flag {
	env := func(names ...string) []string { return prefixed(prefix, names) }
	return []cli.Flag{
		&cli.PathFlag{
			Name: "config-file", EnvVars: env("CONFIG_FILE"),
			Usage: "config `FILE`, YAML or JSON; flags and variables go before it",
		},
		&cli.PathFlag{
			Name: "config-dir", EnvVars: env("CONFIG_DIR", "CONFIG_FILE_SRCDIR"),
			Usage: "`FOLDER` with several config files, of which the node's label names one",
		},
		&cli.StringFlag{
			Name: "default-config", EnvVars: env("DEFAULT_CONFIG"),
			Usage: "`NAME` of the file in config-dir for a node without the label",
		},
		&cli.StringSliceFlag{
			Name: "fallback-strategies", EnvVars: env("FALLBACK_STRATEGIES"),
			Usage: "`STRATEGIES` without default-config, in their order: named (the file default), single (the only file), empty (no file)",
		},
		&cli.StringFlag{
			Name: "node-label", EnvVars: env("NODE_LABEL"), Value: "nvidia.com/device-plugin.config",
			Usage: "`KEY` of the label that names the file in config-dir",
		},
	}
}

// Aliases are the names of Flags that users know from NVIDIA's device plugin and
// its config manager.
func Aliases() map[string]string {
	return map[string]string{"config": "config-file", "config-file-srcdir": "config-dir"}
}

// DeviceFlags say which devices there are. Each has its variable, and one more
// with the prefix, if that is not empty.
func DeviceFlags(prefix string) []cli.Flag {
	d := config.Default()
	env := func(names ...string) []string { return prefixed(prefix, names) }
	return []cli.Flag{
		&cli.StringFlag{
			Name: "mig-strategy", EnvVars: env("MIG_STRATEGY"), Value: string(d.MIGStrategy),
			Usage: "`STRATEGY` by which MIG devices are offered: none (GPUs whole), single (as nvidia.com/gpu) or mixed (as nvidia.com/mig-<profile>)",
		},
		&cli.StringFlag{
			Name: "resource-config", EnvVars: env("RESOURCE_CONFIG", "NVIDIA_DRIVER_RESOURCE_CONFIG"),
			Usage: "`LIST` of original[:new[:replicas]] by which devices are renamed and shared, like gpu:sharedgpu:4; replicas -1 is one for each 1000 MiB",
		},
		&cli.StringFlag{
			Name: "device-discovery-strategy", EnvVars: env("DEVICE_DISCOVERY_STRATEGY"), Value: string(d.Discovery),
			Usage: "`STRATEGY` by which GPUs are found: auto or nvml, which are the same",
		},
	}
}

func prefixed(prefix string, names []string) []string {
	if prefix == "" {
		return names
	}
	return slices.Concat([]string{prefix + names[0]}, names)
}
