package app

import (
	"cmp"
	"fmt"
	"path"
	"slices"

	"github.com/urfave/cli/v2"

	"outrigger.dev/agents/container-toolkit/internal/engine"
)

// engineFlags returns the flags that engineConfig reads. The variables are those of NVIDIA's
// toolkit container; where several set a flag, the first one that is set wins.
func engineFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "runtime", EnvVars: []string{"RUNTIME"}, Value: string(engine.Docker), Usage: "container `ENGINE`: docker, containerd or crio"},
		&cli.BoolFlag{Name: "detect-runtime", EnvVars: []string{"DETECT_RUNTIME"}, Usage: "if the container engine of --runtime does not run on the node, use the one that does; its paths are then found too"},
		&cli.BoolFlag{Name: "no-runtime-config", EnvVars: []string{"NO_RUNTIME_CONFIG"}, Usage: "leave the config of the container engine as it is, and take back what an earlier start changed in it"},
		&cli.PathFlag{Name: "runtime-config", EnvVars: []string{"RUNTIME_CONFIG", "CONTAINERD_CONFIG", "DOCKER_CONFIG"}, Usage: "config `FILE` of the container engine on the host; that of the running engine if it is empty"},
		&cli.PathFlag{Name: "runtime-drop-in-config", EnvVars: []string{"RUNTIME_DROP_IN_CONFIG"}, Usage: "drop-in `FILE` for the runtimes on the host"},
		&cli.PathFlag{Name: "runtime-executable-path", EnvVars: []string{"RUNTIME_EXECUTABLE_PATH"}, Usage: "program `FILE` of the container engine on the host, with which its config is checked; that of the running engine if it is empty"},
		&cli.PathFlag{Name: "runtime-socket", EnvVars: []string{"RUNTIME_SOCKET", "CONTAINERD_SOCKET", "DOCKER_SOCKET"}, Usage: "`SOCKET` of the container engine on the host"},
		&cli.StringFlag{Name: "runtime-restart-mode", EnvVars: []string{"RUNTIME_RESTART_MODE"}, Usage: "how the container engine is made to load its config: signal, systemd or none; systemd for crio, which takes no signal, and signal for the others"},
		&cli.BoolFlag{Name: "runtime-enable-cdi", EnvVars: []string{"RUNTIME_ENABLE_CDI", "CDI_ENABLED", "ENABLE_CDI"}, Usage: "turn CDI on in the container engine"},
		&cli.PathFlag{Name: "host-root-mount", EnvVars: []string{"HOST_ROOT_MOUNT"}, Value: "/host", Usage: "`FOLDER` at which the agent sees / of the host"},
		&cli.StringFlag{Name: "nvidia-runtime-name", EnvVars: []string{"NVIDIA_RUNTIME_NAME", "CONTAINERD_RUNTIME_CLASS", "DOCKER_RUNTIME_NAME"}, Value: "nvidia", Usage: "`NAME` of the runtime"},
		&cli.BoolFlag{Name: "nvidia-runtime-set-as-default", EnvVars: []string{"NVIDIA_RUNTIME_SET_AS_DEFAULT", "CONTAINERD_SET_AS_DEFAULT", "DOCKER_SET_AS_DEFAULT"}, Value: true, Usage: "make it the default runtime"},
		&cli.StringFlag{Name: "containerd-runtime-type", EnvVars: []string{"CONTAINERD_RUNTIME_TYPE"}, Value: "io.containerd.runc.v2", Usage: "runtime_type in containerd's config, if the default runtime has none"},
		&cli.StringSliceFlag{Name: "nvidia-container-runtime-modes-cdi-annotation-prefixes", EnvVars: []string{"NVIDIA_CONTAINER_RUNTIME_MODES_CDI_ANNOTATION_PREFIXES"}, Usage: "`PREFIXES` of annotations that containerd passes to the runtime"},
	}
}

// engineConfig reads the flags of engineFlags. It reports false if no engine is to be
// configured; the Config then serves to take back what was configured before. toolkit is the
// folder on the host that has nvidia-container-runtime.
func engineConfig(c *cli.Context, toolkit string) (engine.Config, bool, error) {
	name := engine.Name(cmp.Or(c.String("runtime"), string(engine.Docker)))
	enabled := !c.Bool("no-runtime-config") && c.String("runtime") != ""
	config := engine.Config{
		Engine:       name,
		HostRoot:     c.Path("host-root-mount"),
		ConfigPath:   c.Path("runtime-config"),
		DropIn:       c.Path("runtime-drop-in-config"),
		Executable:   c.Path("runtime-executable-path"),
		Socket:       c.Path("runtime-socket"),
		RuntimeName:  c.String("nvidia-runtime-name"),
		RuntimePath:  path.Join(cmp.Or(toolkit, "/usr/bin"), "nvidia-container-runtime"),
		Modes:        true,
		SetAsDefault: c.Bool("nvidia-runtime-set-as-default"),
		CDI:          c.Bool("runtime-enable-cdi"),
		RuntimeType:  c.String("containerd-runtime-type"),
		Reload:       engine.ReloadMode(c.String("runtime-restart-mode")),
	}
	for _, p := range c.StringSlice("nvidia-container-runtime-modes-cdi-annotation-prefixes") {
		if p != "" {
			config.Annotations = append(config.Annotations, p+"*")
		}
	}
	if config.Engine == "cri-o" {
		config.Engine = engine.CRIO
	}
	if !slices.Contains([]engine.Name{engine.Docker, engine.Containerd, engine.CRIO}, config.Engine) {
		return config, false, fmt.Errorf("--runtime (RUNTIME) is %q: use docker, containerd or crio", config.Engine)
	}
	if modes := []engine.ReloadMode{"", engine.Signal, engine.Systemd, engine.None}; !slices.Contains(modes, config.Reload) {
		return config, false, fmt.Errorf("--runtime-restart-mode (RUNTIME_RESTART_MODE) is %q: use signal, systemd or none", config.Reload)
	}
	return config, enabled, nil
}
