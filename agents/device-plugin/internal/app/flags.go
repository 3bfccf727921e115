package app

import (
	"slices"

	"github.com/urfave/cli/v2"

	"outrigger.dev/pkg/agent"
	"outrigger.dev/pkg/agent/cluster"
	"outrigger.dev/pkg/agent/configfile"
	"outrigger.dev/pkg/config"
	"outrigger.dev/pkg/health"
)

// flags are the plugin's own, with the names, environment variables and
// defaults of NVIDIA's device plugin; docs/device-plugin.md tells where they
// differ.
func flags() []cli.Flag {
	d := config.Default()
	return slices.Concat(agent.GPUFlags(), configfile.Flags(""), []cli.Flag{cluster.NodeNameFlag(), cluster.EventsFlag("changes of GPUs")}, configfile.DeviceFlags(""), deviceFlags(d), answerFlags(d))
}

// aliases are names that users know from NVIDIA's device plugin and its config
// manager, and the short one of the commands.
func aliases() map[string]string {
	names := configfile.Aliases()
	names["nvidia-ctk-path"] = "nvidia-cdi-hook-path"
	return names
}

// deviceFlags say how devices are offered and chosen.
func deviceFlags(d config.Config) []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{
			Name: "shared-devices-allocation-policy", EnvVars: []string{"SHARED_DEVICES_ALLOCATION_POLICY"}, Value: string(d.Policy),
			Usage: "`POLICY` by which shared devices and MIG devices are chosen: distributed (least used), packed (most used) or spread (all different, then least used); the default with resource-config is spread",
		},
		&cli.PathFlag{
			Name: "mps-root", EnvVars: []string{"MPS_ROOT"}, Value: d.MPSRoot,
			Usage: "the `FOLDER` on the host for pipes and logs of MPS daemons",
		},
		&cli.BoolFlag{
			Name: "fail-on-init-error", EnvVars: []string{"FAIL_ON_INIT_ERROR"},
			Usage: "end with an error if the GPUs cannot be offered at the start, instead of waiting until they can",
		},
		&cli.DurationFlag{
			Name: "health-quiet-window", EnvVars: []string{"HEALTH_QUIET_WINDOW"}, Value: health.DefaultQuiet,
			Usage: "`TIME` without another XID after which a GPU that answers is healthy again, where the XID takes no reset",
		},
		&cli.StringFlag{
			Name: "disable-healthchecks", EnvVars: []string{"DP_DISABLE_HEALTHCHECKS"},
			Usage: "`XIDS` that do not count, beside those that applications cause; all for none at all",
		},
		&cli.StringFlag{
			Name: "enable-healthchecks", EnvVars: []string{"DP_ENABLE_HEALTHCHECKS"},
			Usage: "`XIDS` that count although they would not; all for every one",
		},
	}
}

// answerFlags say what a container gets.
func answerFlags(d config.Config) []cli.Flag {
	return []cli.Flag{
		&cli.StringSliceFlag{
			Name: "device-list-strategy", EnvVars: []string{"DEVICE_LIST_STRATEGY"}, Value: cli.NewStringSlice(string(d.ListStrategies[0])),
			Usage: "`STRATEGIES` by which a container is told its GPUs: any of envvar, volume-mounts, cdi-annotations, cdi-cri",
		},
		&cli.StringFlag{
			Name: "device-id-strategy", EnvVars: []string{"DEVICE_ID_STRATEGY"}, Value: string(d.IDStrategy),
			Usage: "`STRATEGY` by which GPUs are named to the container runtime: uuid or index",
		},
		&cli.BoolFlag{
			Name: "pass-device-specs", EnvVars: []string{"PASS_DEVICE_SPECS"},
			Usage: "give the GPU's device nodes to the kubelet too; needed beside the CPU manager, unless CDI is used",
		},
		&cli.BoolFlag{
			Name: "gds-enabled", EnvVars: []string{"GDS_ENABLED"},
			Usage: "give each container with a GPU what GPUDirect Storage needs",
		},
		&cli.BoolFlag{
			Name: "mofed-enabled", EnvVars: []string{"MOFED_ENABLED"},
			Usage: "give each container with a GPU the InfiniBand devices of the node",
		},
		&cli.BoolFlag{
			Name: "gdrcopy-enabled", EnvVars: []string{"GDRCOPY_ENABLED"},
			Usage: "give each container with a GPU what GDRCopy needs",
		},
		&cli.IntSliceFlag{
			Name: "imex-channel-ids", EnvVars: []string{"IMEX_CHANNEL_IDS"},
			Usage: "`CHANNELS` of IMEX for each container with a GPU: empty or 0",
		},
		&cli.BoolFlag{
			Name: "imex-required", EnvVars: []string{"IMEX_REQUIRED"},
			Usage: "offer nothing while the node lacks the channels of imex-channel-ids",
		},
		&cli.StringFlag{
			Name: "cdi-annotation-prefix", EnvVars: []string{"CDI_ANNOTATION_PREFIX"}, Value: d.CDIAnnotationPrefix,
			Usage: "`PREFIX` of the annotation of device-list-strategy cdi-annotations",
		},
		&cli.PathFlag{
			Name: "cdi-root", EnvVars: []string{"CDI_ROOT"}, Value: d.CDIRoot,
			Usage: "the `FOLDER` for the CDI spec, which is written for the cdi strategies only",
		},
		&cli.PathFlag{
			Name: "nvidia-cdi-hook-path", EnvVars: []string{"NVIDIA_CDI_HOOK_PATH", "NVIDIA_CTK_PATH"},
			Usage: "`FILE` of nvidia-cdi-hook or nvidia-ctk on the host, for CDI hooks; empty for a spec that needs none",
		},
		&cli.StringSliceFlag{
			Name: "cdi-feature-flags", EnvVars: []string{"CDI_FEATURE_FLAGS"},
			Usage: "`WORDS` of NVIDIA's container toolkit that change the CDI spec",
		},
		&cli.StringSliceFlag{
			Name: "cdi-disable-hooks", EnvVars: []string{"CDI_DISABLE_HOOKS"},
			Usage: "`HOOKS` that the CDI spec shall not have; all for none",
		},
		&cli.PathFlag{
			Name: "kubelet-socket", EnvVars: []string{"KUBELET_SOCKET"}, Value: d.KubeletSocket,
			Usage: "`SOCKET` where the kubelet takes registrations, our own lie beside it; empty serves without registering",
		},
	}
}
