package ctk

import (
	"errors"
	"time"

	"github.com/urfave/cli/v2"

	"outrigger.dev/agents/container-toolkit/internal/gpus"
	"outrigger.dev/pkg/cmdline"
	"outrigger.dev/pkg/contract"
)

// cdiCommand returns "nvidia-ctk cdi".
func (p *program) cdiCommand() *cli.Command {
	return &cli.Command{
		Name:        "cdi",
		Usage:       "generate, list and change CDI specs",
		Subcommands: []*cli.Command{p.generateCommand(), p.listCommand(), p.transformCommand()},
	}
}

// generateCommand returns "nvidia-ctk cdi generate". It has the flags and variables of NVIDIA's
// nvidia-ctk.
func (p *program) generateCommand() *cli.Command {
	g := &generation{program: p}
	return &cli.Command{
		Name:  "generate",
		Usage: "write the CDI spec of this node's GPUs",
		Flags: append(g.flags(), csvFlags()...),
		Action: func(c *cli.Context) error {
			if err := g.complete(c); err != nil {
				return err
			}
			err := g.run(c.Context)
			if errors.Is(err, contract.ErrClaimed) {
				return cli.Exit(err, gpus.ClaimedCode)
			}
			return err
		},
	}
}

// generateVar returns the name of an environment variable of "cdi generate".
func generateVar(name string) []string { return []string{"NVIDIA_CTK_CDI_GENERATE_" + name} }

func (g *generation) flags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "output", EnvVars: []string{"NVIDIA_CTK_CDI_OUTPUT_FILE_PATH"}, Destination: &g.output, Usage: "`FILE` of the spec; none for standard output"},
		&cli.StringFlag{Name: "format", EnvVars: generateVar("OUTPUT_FORMAT"), Value: "yaml", Destination: &g.formatName, Usage: "`FORMAT` of the spec: yaml or json; the extension of the output file takes precedence"},
		&cli.StringFlag{
			Name: "mode", Aliases: []string{"discovery-mode"}, EnvVars: generateVar("MODE"), Value: "auto", Destination: &g.modeName,
			Usage: "`MODE`, the devices of the spec: auto or nvml (GPUs), management, mig, imex, gds, mofed, gdrcopy or nvswitch",
		},
		cmdline.List(&cli.StringSliceFlag{
			Name: "device-name-strategy", EnvVars: generateVar("DEVICE_NAME_STRATEGIES"), Value: cli.NewStringSlice("index", "uuid", "pci-bus-id"),
			Usage: "`NAMES` of a GPU: index, uuid, pci-bus-id or type-index; can be repeated",
		}, &g.strategies),
		&cli.StringFlag{Name: "driver-root", EnvVars: []string{"NVIDIA_CTK_DRIVER_ROOT"}, DefaultText: "nvidia-container-cli.root of the config file", Destination: &g.driverRoot, Usage: "root `FOLDER` of the driver"},
		&cli.StringFlag{Name: "dev-root", EnvVars: []string{"NVIDIA_CTK_DEV_ROOT"}, DefaultText: "the driver root if it has device nodes, else /", Destination: &g.devRoot, Usage: "`FOLDER` that contains dev/nvidia*"},
		cmdline.List(&cli.StringSliceFlag{Name: "library-search-path", EnvVars: generateVar("LIBRARY_SEARCH_PATHS"), Usage: "`FOLDER` of the driver root in which to search for libraries first; can be repeated"}, &g.libraryDirs),
		cmdline.List(&cli.StringSliceFlag{Name: "config-search-path", EnvVars: generateVar("CONFIG_SEARCH_PATHS"), Usage: "`FOLDER` of the driver root in which to search for configuration files first; can be repeated"}, &g.configDirs),
		&cli.StringFlag{
			Name: "nvidia-cdi-hook-path", Aliases: []string{"nvidia-ctk-path"}, EnvVars: []string{"NVIDIA_CTK_CDI_HOOK_PATH"}, DefaultText: defaultHook, Destination: &g.options.HookPath,
			Usage: "`PATH` of the hook on the host; empty for a spec without hooks",
		},
		&cli.StringFlag{Name: "ldconfig-path", EnvVars: generateVar("LDCONFIG_PATH"), Destination: &g.options.LdconfigPath, Usage: "`PATH` of ldconfig on the host, for NVIDIA's nvidia-cdi-hook"},
		&cli.StringFlag{Name: "vendor", Aliases: []string{"cdi-vendor"}, EnvVars: generateVar("VENDOR"), Value: "nvidia.com", Destination: &g.options.Vendor, Usage: "`VENDOR` of the spec's kind"},
		&cli.StringFlag{Name: "class", Aliases: []string{"cdi-class"}, EnvVars: generateVar("CLASS"), Value: "gpu", Destination: &g.options.Class, Usage: "`CLASS` of the spec's kind, in the modes for GPUs"},
		cmdline.List(&cli.StringSliceFlag{Name: "disable-hook", Aliases: []string{"disable-hooks"}, EnvVars: generateVar("DISABLED_HOOKS"), Usage: "`HOOK` to leave out, or all; prepare-container to use the single hooks instead; can be repeated"}, &g.disabled),
		cmdline.List(&cli.StringSliceFlag{Name: "enable-hook", Aliases: []string{"enable-hooks"}, EnvVars: generateVar("ENABLED_HOOKS"), Usage: "`HOOK` to add: prepare-container, which does the work of all others; can be repeated"}, &g.enabled),
		cmdline.List(&cli.StringSliceFlag{Name: "feature-flag", Aliases: []string{"feature-flags"}, EnvVars: generateVar("FEATURE_FLAGS"), Usage: "`NAME` of a feature to enable; can be repeated"}, &g.features),
		&cli.BoolFlag{Name: "no-all-device", EnvVars: generateVar("NO_ALL_DEVICE"), Destination: &g.options.NoAll, Usage: "leave out the device all"},
		cmdline.List(&cli.StringSliceFlag{
			Name: "device-id", Aliases: []string{"device", "device-ids", "devices"}, EnvVars: generateVar("DEVICE_IDS"), Value: cli.NewStringSlice("all"),
			Usage: "`ID` of a GPU or MIG device to describe: index, UUID or PCI bus ID, or all; can be repeated",
		}, &g.options.Only),
		cmdline.Check(&cli.DurationFlag{
			Name: "lease-timeout", EnvVars: generateVar("LEASE_TIMEOUT"), Value: 5 * time.Minute, Destination: &g.leaseWait,
			Usage: "`TIME` that the command waits while another program changes GPUs; 0 to fail at once",
		}, "a duration of at least 0", func(d time.Duration) bool { return d >= 0 }),
	}
}

// csvFlags returns the flags of mode csv. They are rejected with an error that explains why.
func csvFlags() []cli.Flag {
	rejected := func(name, variable string) cli.Flag {
		return cmdline.Check(&cli.StringFlag{Name: name, EnvVars: generateVar(variable), Hidden: true},
			"empty: mode csv is not supported, use NVIDIA's nvidia-ctk on Tegra systems", func(v string) bool { return v == "" })
	}
	return []cli.Flag{
		rejected("csv.file", "CSV_FILES"), rejected("csv.ignore-pattern", "CSV_IGNORE_PATTERNS"), rejected("csv.compat-container-root", "CSV_COMPAT_CONTAINER_ROOT"),
	}
}
