package app

import (
	"slices"

	"github.com/urfave/cli/v2"

	"outrigger.dev/pkg/agent"
	"outrigger.dev/pkg/agent/cluster"
)

// flags are the flags of the agent. Variables are those of NVIDIA's nvidia-ctk-installer;
// docs/container-toolkit.md lists where they differ.
func flags() []cli.Flag {
	return slices.Concat(agent.GPUFlags(), installFlags(), cdiFlags(), engineFlags(), nriFlags(), toolFlags(), clusterFlags(), ignoredFlags())
}

// aliases are names of flags in NVIDIA's nvidia-ctk-installer.
func aliases() map[string]string {
	return map[string]string{
		"root": "toolkit-install-dir", "toolkit-root": "toolkit-install-dir", "source-root": "toolkit-source-root",
		"pid-file": "toolkit-pid-file", "enable-cdi": "cdi-enabled", "enable-cdi-in-runtime": "runtime-enable-cdi",
		"nvidia-container-runtime.debug":                         "nvidia-container-runtime-debug",
		"nvidia-container-runtime.log-level":                     "nvidia-container-runtime-log-level",
		"nvidia-container-runtime.mode":                          "nvidia-container-runtime-mode",
		"nvidia-container-runtime.modes.cdi.default-kind":        "nvidia-container-runtime-modes-cdi-default-kind",
		"nvidia-container-runtime.modes.cdi.annotation-prefixes": "nvidia-container-runtime-modes-cdi-annotation-prefixes",
		"nvidia-container-runtime.runtimes":                      "nvidia-container-runtime-runtimes",
		"nvidia-container-runtime-hook.skip-mode-detection":      "nvidia-container-runtime-hook-skip-mode-detection",
		"nvidia-container-cli.debug":                             "nvidia-container-cli-debug",
	}
}

func installFlags() []cli.Flag {
	return []cli.Flag{
		&cli.PathFlag{
			Name: "toolkit-install-dir", EnvVars: []string{"TOOLKIT_INSTALL_DIR", "ROOT"}, Value: "/usr/local/nvidia",
			Usage: "`FOLDER` of the host, at the same path in the agent's container, in which the tools are installed as toolkit",
		},
		&cli.PathFlag{
			Name: "toolkit-source-root", EnvVars: []string{"TOOLKIT_SOURCE_ROOT"}, Value: sourceRoot,
			Usage: "`FOLDER` with the tools to install; if the default does not exist, that of the agent's program",
		},
		&cli.PathFlag{
			Name: "toolkit-pid-file", EnvVars: []string{"TOOLKIT_PID_FILE"}, Value: "/run/nvidia/toolkit/toolkit.pid",
			Usage: "`FILE` that the only toolkit of a node locks; NVIDIA's toolkit locks it too",
		},
		&cli.BoolFlag{
			Name: "no-daemon", EnvVars: []string{"NO_DAEMON"},
			Usage: "install and configure once, then exit; nothing is taken back",
		},
	}
}

func cdiFlags() []cli.Flag {
	return []cli.Flag{
		&cli.BoolFlag{
			Name: "cdi-enabled", EnvVars: []string{"CDI_ENABLED", "ENABLE_CDI"}, Value: true,
			Usage: "keep CDI specs of the GPUs and of all optional hardware",
		},
		&cli.PathFlag{
			Name: "cdi-output-dir", EnvVars: []string{"CDI_OUTPUT_DIR"}, Value: "/var/run/cdi",
			Usage: "`FOLDER` for CDI specs, at the same path in the agent's container",
		},
		&cli.StringFlag{
			Name: "cdi-kind", EnvVars: []string{"CDI_KIND"}, Value: "management.nvidia.com/gpu",
			Usage: "`KIND` of the spec with all device nodes, as management.VENDOR/CLASS; the spec of GPUs has the kind VENDOR/CLASS",
		},
		&cli.StringSliceFlag{
			Name: "create-device-nodes", EnvVars: []string{"CREATE_DEVICE_NODES"}, Value: cli.NewStringSlice("control"),
			Usage: "`NODES` that the agent creates if the driver has not: control, or none",
		},
	}
}

// toolFlags set keys of the tools' config.toml.
func toolFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{
			Name: "nvidia-container-runtime-debug", EnvVars: []string{"NVIDIA_CONTAINER_RUNTIME_DEBUG"},
			Usage: "log `FILE` of the runtime, on the host",
		},
		&cli.StringFlag{
			Name: "nvidia-container-runtime-log-level", EnvVars: []string{"NVIDIA_CONTAINER_RUNTIME_LOG_LEVEL"},
			Usage: "`LEVEL` of that log: debug, info, warning or error",
		},
		&cli.StringFlag{
			Name: "nvidia-container-runtime-mode", EnvVars: []string{"NVIDIA_CONTAINER_RUNTIME_MODE"},
			Usage: "`MODE` of the runtime: auto, cdi or legacy",
		},
		&cli.StringFlag{
			Name: "nvidia-container-runtime-modes-cdi-default-kind", EnvVars: []string{"NVIDIA_CONTAINER_RUNTIME_MODES_CDI_DEFAULT_KIND"},
			Usage: "CDI `KIND` of devices that a container names without a kind",
		},
		&cli.StringSliceFlag{
			Name: "nvidia-container-runtime-runtimes", EnvVars: []string{"NVIDIA_CONTAINER_RUNTIME_RUNTIMES"},
			Usage: "names or paths of low-level `RUNTIMES`; the first that exists runs the containers",
		},
		&cli.BoolFlag{
			Name: "nvidia-container-runtime-hook-skip-mode-detection", EnvVars: []string{"NVIDIA_CONTAINER_RUNTIME_HOOK_SKIP_MODE_DETECTION"}, Value: true,
			Usage: "let engines that call the prestart hook themselves do so in every mode",
		},
		&cli.StringFlag{
			Name: "nvidia-container-cli-debug", EnvVars: []string{"NVIDIA_CONTAINER_CLI_DEBUG"},
			Usage: "log `FILE` of nvidia-container-cli, on the host",
		},
		&cli.BoolFlag{
			Name: "accept-nvidia-visible-devices-envvar-when-unprivileged", EnvVars: []string{"ACCEPT_NVIDIA_VISIBLE_DEVICES_ENVVAR_WHEN_UNPRIVILEGED"}, Value: true,
			Usage: "give a container that is not privileged the GPUs that its image or pod names in NVIDIA_VISIBLE_DEVICES; needed for the device plugin's strategy envvar",
		},
		&cli.BoolFlag{
			Name: "accept-nvidia-visible-devices-as-volume-mounts", EnvVars: []string{"ACCEPT_NVIDIA_VISIBLE_DEVICES_AS_VOLUME_MOUNTS"},
			Usage: "give a container the GPUs that its mounts name; needed for the device plugin's strategy volume-mounts",
		},
		&cli.StringSliceFlag{
			Name: "opt-in-features", EnvVars: []string{"NVIDIA_CONTAINER_TOOLKIT_OPT_IN_FEATURES"},
			Usage: "`FEATURES` of the tools to turn on: keys of the section features of config.toml",
		},
	}
}

func clusterFlags() []cli.Flag {
	return []cli.Flag{
		cluster.NodeNameFlag(),
		&cli.StringFlag{
			Name: "daemonset-name", EnvVars: []string{"DAEMONSET_NAME"},
			Usage: "`NAME` of the agent's DaemonSet: when it is deleted, the agent takes back everything; if empty, nothing is ever taken back",
		},
		&cli.StringFlag{
			Name: "namespace", EnvVars: []string{"NAMESPACE"}, Value: "default",
			Usage: "`NAMESPACE` of the DaemonSet",
		},
	}
}
