package ctk

import (
	"io"

	"github.com/urfave/cli/v2"
)

// generateCommand returns "nvidia-ctk cdi generate", with the flags and variables of
// NVIDIA's.
func generateCommand(stdout, stderr io.Writer) *cli.Command {
	return &cli.Command{
		Name:  "generate",
		Usage: "write the CDI spec of this node's GPUs",
		Flags: append(generateFlags(), csvFlags()...),
		Action: func(c *cli.Context) error {
			g, err := generationOf(c, stdout, stderr)
			if err != nil {
				return err
			}
			return g.run(c)
		},
	}
}

// generateVar returns the name of a variable of "cdi generate".
func generateVar(name string) []string { return []string{"NVIDIA_CTK_CDI_GENERATE_" + name} }

func generateFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "output", EnvVars: []string{"NVIDIA_CTK_CDI_OUTPUT_FILE_PATH"}, Usage: "`FILE` of the spec; none for standard output"},
		&cli.StringFlag{Name: "format", EnvVars: generateVar("OUTPUT_FORMAT"), Value: "yaml", Usage: "`FORMAT` of the spec: yaml or json; the extension of the file comes first"},
		&cli.StringFlag{
			Name: "mode", Aliases: []string{"discovery-mode"}, EnvVars: generateVar("MODE"), Value: "auto",
			Usage: "what the spec describes: auto or nvml (GPUs), management, mig, imex, gds, mofed, gdrcopy or nvswitch",
		},
		&cli.StringSliceFlag{
			Name: "device-name-strategy", EnvVars: generateVar("DEVICE_NAME_STRATEGIES"), Value: cli.NewStringSlice("index", "uuid", "pci-bus-id"),
			Usage: "`NAMES` of a GPU: index, uuid, pci-bus-id or type-index; can be repeated",
		},
		&cli.StringFlag{Name: "driver-root", EnvVars: []string{"NVIDIA_CTK_DRIVER_ROOT"}, DefaultText: "nvidia-container-cli.root of the config file", Usage: "root `FOLDER` of the driver"},
		&cli.StringFlag{Name: "dev-root", EnvVars: []string{"NVIDIA_CTK_DEV_ROOT"}, DefaultText: "the driver root if it has device nodes, else /", Usage: "`FOLDER` that contains dev/nvidia*"},
		&cli.StringSliceFlag{Name: "library-search-path", EnvVars: generateVar("LIBRARY_SEARCH_PATHS"), Usage: "`FOLDER` of the driver root in which to search for libraries first; can be repeated"},
		&cli.StringSliceFlag{Name: "config-search-path", EnvVars: generateVar("CONFIG_SEARCH_PATHS"), Usage: "`FOLDER` of the driver root in which to search for configuration files first; can be repeated"},
		&cli.StringFlag{
			Name: "nvidia-cdi-hook-path", Aliases: []string{"nvidia-ctk-path"}, EnvVars: []string{"NVIDIA_CTK_CDI_HOOK_PATH"}, DefaultText: defaultHook,
			Usage: "`PATH` of the hook on the host; empty for a spec without hooks",
		},
		&cli.StringFlag{Name: "ldconfig-path", EnvVars: generateVar("LDCONFIG_PATH"), Usage: "`PATH` of ldconfig on the host, for NVIDIA's nvidia-cdi-hook"},
		&cli.StringFlag{Name: "vendor", Aliases: []string{"cdi-vendor"}, EnvVars: generateVar("VENDOR"), Value: "nvidia.com", Usage: "`VENDOR` of the spec's kind"},
		&cli.StringFlag{Name: "class", Aliases: []string{"cdi-class"}, EnvVars: generateVar("CLASS"), Value: "gpu", Usage: "`CLASS` of the spec's kind, in the modes for GPUs"},
		&cli.StringSliceFlag{Name: "disable-hook", EnvVars: generateVar("DISABLED_HOOKS"), Usage: "`HOOK` to leave out, or all; prepare-container for the single hooks in its place; can be repeated"},
		&cli.StringSliceFlag{Name: "enable-hook", EnvVars: generateVar("ENABLED_HOOKS"), Usage: "`HOOK` to add: prepare-container, which does the work of all others; can be repeated"},
		&cli.StringSliceFlag{Name: "feature-flag", EnvVars: generateVar("FEATURE_FLAGS"), Usage: "`NAME` of a feature to turn on; can be repeated"},
		&cli.BoolFlag{Name: "no-all-device", EnvVars: generateVar("NO_ALL_DEVICE"), Usage: "leave out the device all"},
		&cli.StringSliceFlag{
			Name: "device-id", Aliases: []string{"device", "device-ids"}, EnvVars: generateVar("DEVICE_IDS"), Value: cli.NewStringSlice("all"),
			Usage: "`ID` of a GPU or MIG device to describe: index, UUID or PCI bus ID, or all; can be repeated",
		},
	}
}

// csvFlags returns the flags of a mode that is rejected, so that the error says why.
func csvFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringSliceFlag{Name: "csv.file", EnvVars: generateVar("CSV_FILES"), Hidden: true},
		&cli.StringSliceFlag{Name: "csv.ignore-pattern", EnvVars: generateVar("CSV_IGNORE_PATTERNS"), Hidden: true},
		&cli.StringFlag{Name: "csv.compat-container-root", EnvVars: generateVar("CSV_COMPAT_CONTAINER_ROOT"), Hidden: true},
	}
}
