package app

import (
	"errors"
	"log/slog"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v2"

	"outrigger.dev/agents/device-plugin/internal/config"
	"outrigger.dev/agents/device-plugin/internal/health"
	"outrigger.dev/pkg/agent"
)

// flags are the plugin's own, with the names, environment variables and
// defaults of NVIDIA's device plugin; docs/device-plugin.md tells where they
// differ.
func flags() []cli.Flag {
	return append(agent.GPUFlags(),
		&cli.StringFlag{
			Name: "mig-strategy", EnvVars: []string{"MIG_STRATEGY"}, Value: string(config.MIGStrategyNone),
			Usage: "`STRATEGY` by which MIG devices are offered: none (GPUs whole)",
		},
		&cli.BoolFlag{
			Name: "fail-on-init-error", EnvVars: []string{"FAIL_ON_INIT_ERROR"},
			Usage: "end with an error if the GPUs cannot be offered at the start, instead of waiting until they can",
		},
		&cli.StringSliceFlag{
			Name: "device-list-strategy", EnvVars: []string{"DEVICE_LIST_STRATEGY"}, Value: cli.NewStringSlice(string(config.ListEnvvar)),
			Usage: "`STRATEGIES` by which a container is told its GPUs: any of envvar, cdi-cri, cdi-annotations",
		},
		&cli.StringFlag{
			Name: "device-id-strategy", EnvVars: []string{"DEVICE_ID_STRATEGY"}, Value: string(config.IDUUID),
			Usage: "`STRATEGY` by which GPUs are named to the container runtime: uuid or index",
		},
		&cli.BoolFlag{
			Name: "pass-device-specs", EnvVars: []string{"PASS_DEVICE_SPECS"},
			Usage: "give the GPU's device nodes to the kubelet too; needed beside the CPU manager, unless CDI is used",
		},
		&cli.StringFlag{
			Name: "cdi-annotation-prefix", EnvVars: []string{"CDI_ANNOTATION_PREFIX"}, Value: "cdi.k8s.io/",
			Usage: "`PREFIX` of the annotation of device-list-strategy cdi-annotations",
		},
		&cli.PathFlag{
			Name: "cdi-root", EnvVars: []string{"CDI_ROOT"}, Value: "/var/run/cdi",
			Usage: "the `FOLDER` for the CDI spec, which is written for the cdi strategies only",
		},
		&cli.PathFlag{
			Name: "nvidia-cdi-hook-path", EnvVars: []string{"NVIDIA_CDI_HOOK_PATH", "NVIDIA_CTK_PATH"},
			Usage: "`FILE` of nvidia-cdi-hook or nvidia-ctk on the host, for CDI hooks; empty for a spec that needs none",
		},
		&cli.PathFlag{
			Name: "kubelet-socket", EnvVars: []string{"KUBELET_SOCKET"}, Value: kubeletSocket,
			Usage: "`SOCKET` where the kubelet takes registrations, our own lie beside it; empty serves without registering",
		},
		&cli.StringFlag{
			Name: "disable-healthchecks", EnvVars: []string{"DP_DISABLE_HEALTHCHECKS"},
			Usage: "`XIDS` that do not count, beside those that applications cause; all for none at all",
		},
		&cli.StringFlag{
			Name: "enable-healthchecks", EnvVars: []string{"DP_ENABLE_HEALTHCHECKS"},
			Usage: "`XIDS` that count although they would not; all for every one",
		},
	)
}

const kubeletSocket = "/var/lib/kubelet/device-plugins/kubelet.sock"

func aliases() map[string]string {
	return map[string]string{"nvidia-ctk-path": "nvidia-cdi-hook-path"}
}

// settings is all that the flags say.
type settings struct {
	config config.Config
	host   agent.Host
	rules  health.Rules
	// devRoot is empty unless the flag is set.
	devRoot string
}

func read(c *cli.Context, log *slog.Logger) (settings, error) {
	host, hostErr := agent.HostOf(c)
	s := settings{
		config: config.Config{
			MIGStrategy:         config.MIGStrategy(c.String("mig-strategy")),
			IDStrategy:          config.IDStrategy(c.String("device-id-strategy")),
			CDIAnnotationPrefix: c.String("cdi-annotation-prefix"),
			PassDeviceSpecs:     c.Bool("pass-device-specs"),
			KubeletSocket:       c.Path("kubelet-socket"),
			Register:            c.Path("kubelet-socket") != "",
			FailOnInitError:     c.Bool("fail-on-init-error"),
			CDIRoot:             c.Path("cdi-root"),
			HookPath:            c.Path("nvidia-cdi-hook-path"),
		},
		host: host,
	}
	if !s.config.Register {
		s.config.KubeletSocket = kubeletSocket
	}
	if c.IsSet("dev-root") {
		s.devRoot = host.DevRoot
	}
	for _, v := range c.StringSlice("device-list-strategy") {
		s.config.ListStrategies = append(s.config.ListStrategies, config.ListStrategy(strings.TrimSpace(v)))
	}
	var unknown []string
	s.rules, unknown = health.ParseRules(c.String("disable-healthchecks"), c.String("enable-healthchecks"))
	if len(unknown) > 0 {
		log.Warn("not an XID in the lists of health checks, ignored", "items", unknown)
	}
	if err := s.config.Validate(); err != nil {
		return settings{}, errors.Join(hostErr, agent.Usagef("%s", err))
	}
	return s, hostErr
}

// effective is what the first line of the log says.
func (s settings) effective(c *cli.Context) slog.Value {
	return slog.GroupValue(
		slog.String("gpu_source", c.String("gpu-source")),
		slog.String("driver_root", s.host.DriverRoot),
		slog.String("driver_root_ctr_path", s.host.DriverRootCtrPath),
		slog.String("dev_root", s.devRoot),
		slog.String("run_root", s.host.RunRoot),
		slog.String("mig_strategy", string(s.config.MIGStrategy)),
		slog.Any("device_list_strategy", s.config.ListStrategies),
		slog.String("device_id_strategy", string(s.config.IDStrategy)),
		slog.Bool("pass_device_specs", s.config.PassDeviceSpecs),
		slog.String("cdi_root", s.config.CDIRoot),
		slog.String("nvidia_cdi_hook_path", s.config.HookPath),
		slog.String("kubelet_socket", c.Path("kubelet-socket")),
		slog.Bool("fail_on_init_error", s.config.FailOnInitError),
		slog.String("disable_healthchecks", c.String("disable-healthchecks")),
		slog.String("enable_healthchecks", c.String("enable-healthchecks")),
	)
}

func (s settings) socketDir() string { return filepath.Dir(s.config.KubeletSocket) }
