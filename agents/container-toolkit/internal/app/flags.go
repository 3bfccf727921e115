package app

import (
	"slices"

	"github.com/urfave/cli/v2"

	"outrigger.dev/pkg/cmdline"
	"outrigger.dev/pkg/cmdline/category"
)

// flags returns the flags of the agent. The variables have the names of NVIDIA's
// nvidia-ctk-installer; docs/container-toolkit-reference.md lists the differences.
func (s *settings) flags() []cli.Flag {
	return slices.Concat(
		s.host.GPUFlags(),
		cmdline.Under(category.Tools, s.installFlags()...),
		cmdline.Under(category.Containers, s.cdiFlags()...),
		cmdline.Under(category.Engine, slices.Concat(s.engineFlags(), s.nri.flags())...),
		cmdline.Under(category.Tools, s.toolFlags()...),
		cmdline.Under(category.Kubernetes, s.clusterFlags()...),
		ignoredFlags(),
	)
}

func (s *settings) installFlags() []cli.Flag {
	return []cli.Flag{
		cmdline.Absolute(&cli.PathFlag{
			Name: "toolkit-install-dir", Aliases: []string{"root", "toolkit-root"}, EnvVars: []string{"TOOLKIT_INSTALL_DIR", "ROOT"}, Value: "/usr/local/nvidia", Destination: (*string)(&s.dir),
			Usage: "`FOLDER` of the host, at the same path in the agent's container, in which the tools are installed as toolkit",
		}),
		&cli.PathFlag{
			Name: "toolkit-source-root", Aliases: []string{"source-root"}, EnvVars: []string{"TOOLKIT_SOURCE_ROOT"}, DefaultText: `"` + sourceRoot + `"`, Destination: &s.sourceRoot,
			Usage: "`FOLDER` with the tools to install; if the default does not exist, the folder of the agent's program",
		},
		cmdline.Absolute(&cli.PathFlag{
			Name: "toolkit-pid-file", Aliases: []string{"pid-file"}, EnvVars: []string{"TOOLKIT_PID_FILE"}, Value: "/run/nvidia/toolkit/toolkit.pid", Destination: &s.pidFile,
			Usage: "`FILE` that the only toolkit of a node locks; NVIDIA's toolkit locks it too",
		}),
		&cli.BoolFlag{
			Name: "no-daemon", Aliases: []string{"n"}, EnvVars: []string{"NO_DAEMON"}, Destination: &s.once,
			Usage: "install and configure once, then exit without reverting anything",
		},
	}
}

func (s *settings) cdiFlags() []cli.Flag {
	return []cli.Flag{
		&cli.BoolFlag{
			Name: "cdi-enabled", Aliases: []string{"enable-cdi"}, EnvVars: []string{"CDI_ENABLED", "ENABLE_CDI"}, Value: true, Destination: &s.cdi,
			Usage: "keep CDI specs of the GPUs and of all optional hardware",
		},
		cmdline.Absolute(&cli.PathFlag{
			Name: "cdi-output-dir", EnvVars: []string{"CDI_OUTPUT_DIR"}, Value: "/var/run/cdi", Destination: &s.cdiDir,
			Usage: "`FOLDER` for CDI specs, at the same path in the agent's container",
		}),
		cmdline.Check(&cli.StringFlag{
			Name: "cdi-kind", EnvVars: []string{"CDI_KIND"}, Value: "management.nvidia.com/gpu", Destination: &s.cdiKind,
			Usage: "`KIND` of the spec with all device nodes, as management.VENDOR/CLASS; the spec of GPUs has the kind VENDOR/CLASS",
		}, "management.VENDOR/CLASS", func(v string) bool { vendor, class := kindOf(v); return vendor != "" && class != "" }),
		cmdline.List(&cli.StringSliceFlag{
			Name: "create-device-nodes", EnvVars: []string{"CREATE_DEVICE_NODES"}, Value: cli.NewStringSlice("control"),
			Usage: "device `NODES` that the agent creates if the driver has not created them: control or none",
		}, &s.deviceNodes),
	}
}

// toolFlags returns the flags that set keys of the tools' config.toml.
func (s *settings) toolFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{
			Name: "nvidia-container-runtime-debug", Aliases: []string{"nvidia-container-runtime.debug"}, EnvVars: []string{"NVIDIA_CONTAINER_RUNTIME_DEBUG"}, Destination: &s.tools.runtimeDebug,
			Usage: "log `FILE` of nvidia-container-runtime, on the host",
		},
		&cli.StringFlag{
			Name: "nvidia-container-runtime-log-level", Aliases: []string{"nvidia-container-runtime.log-level", "nvidia-container-runtime-debug-log-level"}, EnvVars: []string{"NVIDIA_CONTAINER_RUNTIME_LOG_LEVEL"}, Destination: &s.tools.logLevel,
			Usage: "`LEVEL` of the log of nvidia-container-runtime: debug, info, warning or error",
		},
		&cli.StringFlag{
			Name: "nvidia-container-runtime-mode", Aliases: []string{"nvidia-container-runtime.mode"}, EnvVars: []string{"NVIDIA_CONTAINER_RUNTIME_MODE"}, Destination: &s.tools.mode,
			Usage: "`MODE` of the runtime: auto, cdi or legacy",
		},
		&cli.StringFlag{
			Name: "nvidia-container-runtime-modes-cdi-default-kind", Aliases: []string{"nvidia-container-runtime.modes.cdi.default-kind"}, EnvVars: []string{"NVIDIA_CONTAINER_RUNTIME_MODES_CDI_DEFAULT_KIND"}, Destination: &s.tools.defaultKind,
			Usage: "CDI `KIND` of devices that a container names without a kind",
		},
		cmdline.List(&cli.StringSliceFlag{
			Name: "nvidia-container-runtime-runtimes", Aliases: []string{"nvidia-container-runtime.runtimes"}, EnvVars: []string{"NVIDIA_CONTAINER_RUNTIME_RUNTIMES"},
			Usage: "names or paths of low-level `RUNTIMES`; the first that exists runs the containers; if empty, the program of the default runtime of the container engine, runc and crun",
		}, &s.tools.runtimes),
		&cli.BoolFlag{
			Name: "nvidia-container-runtime-hook-skip-mode-detection", Aliases: []string{"nvidia-container-runtime-hook.skip-mode-detection"}, EnvVars: []string{"NVIDIA_CONTAINER_RUNTIME_HOOK_SKIP_MODE_DETECTION"}, Value: true, Destination: &s.tools.skipMode,
			Usage: "allow engines to call the prestart hook directly in every mode, as with docker run --gpus",
		},
		&cli.StringFlag{
			Name: "nvidia-container-cli-debug", Aliases: []string{"nvidia-container-cli.debug"}, EnvVars: []string{"NVIDIA_CONTAINER_CLI_DEBUG"}, Destination: &s.tools.cliDebug,
			Usage: "log `FILE` of nvidia-container-cli, on the host",
		},
		&cli.BoolFlag{
			Name: "accept-nvidia-visible-devices-envvar-when-unprivileged", EnvVars: []string{"ACCEPT_NVIDIA_VISIBLE_DEVICES_ENVVAR_WHEN_UNPRIVILEGED"}, Value: true, Destination: &s.tools.acceptEnv,
			Usage: "give a container that is not privileged the GPUs that its image or pod names in NVIDIA_VISIBLE_DEVICES; needed for the device plugin's strategy envvar",
		},
		&cli.BoolFlag{
			Name: "accept-nvidia-visible-devices-as-volume-mounts", EnvVars: []string{"ACCEPT_NVIDIA_VISIBLE_DEVICES_AS_VOLUME_MOUNTS"}, Destination: &s.tools.acceptMounts,
			Usage: "give a container the GPUs that its mounts name; needed for the device plugin's strategy volume-mounts",
		},
		&cli.BoolFlag{
			Name: "accept-cdi-annotations-when-unprivileged", EnvVars: []string{"ACCEPT_CDI_ANNOTATIONS_WHEN_UNPRIVILEGED"}, Destination: &s.tools.acceptAnnotations,
			Usage: "give a container that is not privileged the GPUs that its annotations name; needed for the device plugin's strategy cdi-annotations. With CRI-O, each pod can set such annotations",
		},
		cmdline.List(&cli.StringSliceFlag{
			Name: "opt-in-features", EnvVars: []string{"NVIDIA_CONTAINER_TOOLKIT_OPT_IN_FEATURES"},
			Usage: "`FEATURES` of the tools to turn on: keys of the section features of config.toml",
		}, &s.tools.features),
	}
}

func (s *settings) clusterFlags() []cli.Flag {
	return []cli.Flag{
		s.cluster.NodeNameFlag(),
		s.cluster.DaemonSetFlag(": if that is deleted, the agent reverts all of its changes when it stops; if empty, the agent never reverts them"),
		s.cluster.NamespaceFlag("the DaemonSet"),
	}
}
