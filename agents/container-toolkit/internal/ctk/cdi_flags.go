package ctk

import (
	"io"

	"outrigger.dev/pkg/command"
)

// generateCommand returns "nvidia-ctk cdi generate", with the flags and variables of
// NVIDIA's.
func generateCommand(stdout, stderr io.Writer) *command.Command {
	return &command.Command{
		Name:  "generate",
		Usage: "write the CDI spec of this node's GPUs",
		Flags: append(generateFlags(), csvFlags()...),
		Action: func(c *command.Context) error {
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

func generateFlags() []command.Flag {
	return []command.Flag{
		&command.StringFlag{Name: "output", EnvVars: []string{"NVIDIA_CTK_CDI_OUTPUT_FILE_PATH"}, Usage: "`FILE` of the spec; none for standard output"},
		&command.StringFlag{Name: "format", EnvVars: generateVar("OUTPUT_FORMAT"), Value: "yaml", Usage: "`FORMAT` of the spec: yaml or json; the extension of the file comes first"},
		&command.StringFlag{
			Name: "mode", Aliases: []string{"discovery-mode"}, EnvVars: generateVar("MODE"), Value: "auto",
			Usage: "what the spec describes: auto or nvml (GPUs), management, mig, imex, gds, mofed, gdrcopy or nvswitch",
		},
		&command.StringSliceFlag{
			Name: "device-name-strategy", EnvVars: generateVar("DEVICE_NAME_STRATEGIES"), Value: []string{"index", "uuid", "pci-bus-id"},
			Usage: "`NAMES` of a GPU: index, uuid, pci-bus-id or type-index; can be repeated",
		},
		&command.StringFlag{Name: "driver-root", EnvVars: []string{"NVIDIA_CTK_DRIVER_ROOT"}, DefaultText: "nvidia-container-cli.root of the config file", Usage: "root `FOLDER` of the driver"},
		&command.StringFlag{Name: "dev-root", EnvVars: []string{"NVIDIA_CTK_DEV_ROOT"}, DefaultText: "the driver root if it has device nodes, else /", Usage: "`FOLDER` that contains dev/nvidia*"},
		&command.StringSliceFlag{Name: "library-search-path", EnvVars: generateVar("LIBRARY_SEARCH_PATHS"), Usage: "`FOLDER` of the driver root in which to search for libraries first; can be repeated"},
		&command.StringSliceFlag{Name: "config-search-path", EnvVars: generateVar("CONFIG_SEARCH_PATHS"), Usage: "`FOLDER` of the driver root in which to search for configuration files first; can be repeated"},
		&command.StringFlag{
			Name: "nvidia-cdi-hook-path", Aliases: []string{"nvidia-ctk-path"}, EnvVars: []string{"NVIDIA_CTK_CDI_HOOK_PATH"}, DefaultText: defaultHook,
			Usage: "`PATH` of the hook on the host; empty for a spec without hooks",
		},
		&command.StringFlag{Name: "ldconfig-path", EnvVars: generateVar("LDCONFIG_PATH"), Usage: "`PATH` of ldconfig on the host, for NVIDIA's nvidia-cdi-hook"},
		&command.StringFlag{Name: "vendor", Aliases: []string{"cdi-vendor"}, EnvVars: generateVar("VENDOR"), Value: "nvidia.com", Usage: "`VENDOR` of the spec's kind"},
		&command.StringFlag{Name: "class", Aliases: []string{"cdi-class"}, EnvVars: generateVar("CLASS"), Value: "gpu", Usage: "`CLASS` of the spec's kind, in the modes for GPUs"},
		&command.StringSliceFlag{Name: "disable-hook", EnvVars: generateVar("DISABLED_HOOKS"), Usage: "`HOOK` to leave out, or all; prepare-container for the single hooks in its place; can be repeated"},
		&command.StringSliceFlag{Name: "enable-hook", EnvVars: generateVar("ENABLED_HOOKS"), Usage: "`HOOK` to add: prepare-container, which does the work of all others; can be repeated"},
		&command.StringSliceFlag{Name: "feature-flag", EnvVars: generateVar("FEATURE_FLAGS"), Usage: "`NAME` of a feature to turn on; can be repeated"},
		&command.BoolFlag{Name: "no-all-device", EnvVars: generateVar("NO_ALL_DEVICE"), Usage: "leave out the device all"},
		&command.StringSliceFlag{
			Name: "device-id", Aliases: []string{"device", "device-ids"}, EnvVars: generateVar("DEVICE_IDS"), Value: []string{"all"},
			Usage: "`ID` of a GPU or MIG device to describe: index, UUID or PCI bus ID, or all; can be repeated",
		},
	}
}

// csvFlags returns the flags of a mode that is rejected, so that the error says why.
func csvFlags() []command.Flag {
	return []command.Flag{
		&command.StringSliceFlag{Name: "csv.file", EnvVars: generateVar("CSV_FILES"), Hidden: true},
		&command.StringSliceFlag{Name: "csv.ignore-pattern", EnvVars: generateVar("CSV_IGNORE_PATTERNS"), Hidden: true},
		&command.StringFlag{Name: "csv.compat-container-root", EnvVars: generateVar("CSV_COMPAT_CONTAINER_ROOT"), Hidden: true},
	}
}
