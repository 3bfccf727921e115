package app

import (
	"cmp"
	"path"
	"slices"

	"github.com/urfave/cli/v2"

	"outrigger.dev/agents/container-toolkit/internal/engine"
	"outrigger.dev/agents/container-toolkit/internal/engine/live"
	"outrigger.dev/pkg/cmdline"
	"outrigger.dev/pkg/text"
)

// engineFlags returns the flags of the container engine. The variables have the names of
// NVIDIA's toolkit container. If several variables of a flag are set, the first one wins.
func (s *settings) engineFlags() []cli.Flag {
	e, engines := &s.engine, []engine.Name{engine.Docker, engine.Containerd, engine.CRIO}
	return []cli.Flag{
		cmdline.Check(&cli.StringFlag{
			Name: "runtime", Aliases: []string{"r"}, EnvVars: []string{"RUNTIME"}, Value: string(engine.Docker), Destination: (*string)(&e.Engine),
			Usage: "container `ENGINE`: docker, containerd or crio",
		}, text.OneOf(engines), func(v string) bool { return v == "" || v == "cri-o" || slices.Contains(engines, engine.Name(v)) }),
		&cli.BoolFlag{
			Name: "detect-runtime", EnvVars: []string{"DETECT_RUNTIME"}, Destination: &e.detect,
			Usage: "if the container engine of --runtime does not run on the node, configure the engine that runs, and find its paths",
		},
		&cli.BoolFlag{
			Name: "no-runtime-config", EnvVars: []string{"NO_RUNTIME_CONFIG"}, Destination: &e.untouched,
			Usage: "do not configure the container engine, and revert the changes of an earlier start",
		},
		&cli.PathFlag{
			Name: "runtime-config", Aliases: []string{"config"}, EnvVars: []string{"RUNTIME_CONFIG", "CONTAINERD_CONFIG", "DOCKER_CONFIG"}, Destination: &e.ConfigPath,
			Usage: "config `FILE` of the container engine on the host; if empty, the file of the running engine",
		},
		&cli.PathFlag{
			Name: "runtime-drop-in-config", Aliases: []string{"drop-in-config"}, EnvVars: []string{"RUNTIME_DROP_IN_CONFIG"}, Destination: &e.DropIn,
			Usage: "drop-in `FILE` for the runtimes on the host",
		},
		&cli.PathFlag{
			Name: "runtime-executable-path", Aliases: []string{"executable-path"}, EnvVars: []string{"RUNTIME_EXECUTABLE_PATH"}, Destination: &e.Executable,
			Usage: "program `FILE` of the container engine on the host, which checks the changed config; if empty, the program of the running engine",
		},
		&cli.PathFlag{
			Name: "runtime-socket", Aliases: []string{"socket"}, EnvVars: []string{"RUNTIME_SOCKET", "CONTAINERD_SOCKET", "DOCKER_SOCKET"}, Destination: &e.Socket,
			Usage: "`SOCKET` of the container engine on the host",
		},
		cmdline.Enum(&cli.StringFlag{
			Name: "runtime-restart-mode", Aliases: []string{"restart-mode"}, EnvVars: []string{"RUNTIME_RESTART_MODE"}, Destination: (*string)(&e.Reload),
			Usage: "how the container engine loads its config: signal, systemd (restart the unit) or none; the default is systemd for crio, which cannot reload runtimes after a signal, and signal for the others",
		}, engine.Signal, engine.Systemd, engine.None),
		&cli.BoolFlag{
			Name: "runtime-enable-cdi", Aliases: []string{"enable-cdi-in-runtime"}, EnvVars: []string{"RUNTIME_ENABLE_CDI", "CDI_ENABLED", "ENABLE_CDI"}, Destination: &e.CDI,
			Usage: "enable CDI in the container engine",
		},
		&cli.PathFlag{
			Name: "host-root-mount", Aliases: []string{"host-root"}, EnvVars: []string{"HOST_ROOT_MOUNT"}, Value: "/host", Destination: &e.HostRoot,
			Usage: "`FOLDER` at which the agent sees / of the host",
		},
		&cli.StringFlag{
			Name: "nvidia-runtime-name", Aliases: []string{"runtime-name", "runtime-class"}, EnvVars: []string{"NVIDIA_RUNTIME_NAME", "CONTAINERD_RUNTIME_CLASS", "DOCKER_RUNTIME_NAME"}, Value: "nvidia", Destination: &e.RuntimeName,
			Usage: "`NAME` of the runtime",
		},
		&cli.BoolFlag{
			Name: "nvidia-runtime-set-as-default", Aliases: []string{"set-as-default"}, EnvVars: []string{"NVIDIA_RUNTIME_SET_AS_DEFAULT", "CONTAINERD_SET_AS_DEFAULT", "DOCKER_SET_AS_DEFAULT"}, Value: true, Destination: &e.SetAsDefault,
			Usage: "make this runtime the default runtime",
		},
		&cli.StringFlag{
			Name: "containerd-runtime-type", Aliases: []string{"runtime-type"}, EnvVars: []string{"CONTAINERD_RUNTIME_TYPE"}, Value: "io.containerd.runc.v2", Destination: &e.RuntimeType,
			Usage: "runtime_type in containerd's config, if the default runtime does not set it",
		},
		cmdline.List(&cli.StringSliceFlag{
			Name: "nvidia-container-runtime-modes-cdi-annotation-prefixes", Aliases: []string{"nvidia-container-runtime.modes.cdi.annotation-prefixes", "nvidia-container-runtime-modes.cdi.annotation-prefixes"}, EnvVars: []string{"NVIDIA_CONTAINER_RUNTIME_MODES_CDI_ANNOTATION_PREFIXES"},
			Usage: "`PREFIXES` of annotations that containerd passes to the runtime",
		}, &s.tools.prefixes),
	}
}

// complete derives the other fields of the config. tools is the folder on the host that contains
// the runtime. prefixes are the prefixes of annotations that containerd passes to the runtime.
func (e *engineSettings) complete(tools string, prefixes []string) {
	e.enabled = e.Engine != "" && !e.untouched
	e.Engine = cmp.Or(e.Engine, engine.Docker)
	if e.Engine == "cri-o" {
		e.Engine = engine.CRIO
	}
	e.RuntimePath, e.Modes, e.Ask = path.Join(tools, "nvidia-container-runtime"), true, live.Ask
	for _, p := range prefixes {
		e.Annotations = append(e.Annotations, p+"*")
	}
}
