package app

import (
	"time"

	"github.com/urfave/cli/v2"

	"outrigger.dev/agents/mig-manager/internal/manager"
	"outrigger.dev/pkg/agent"
	"outrigger.dev/pkg/cmdline"
	"outrigger.dev/pkg/podresources"
	"outrigger.dev/pkg/text"
)

// The flags of the agent have the names and environment variables of NVIDIA's MIG manager, for
// settings that it has.

// clusterFlags returns the flags for the Node and the DaemonSet of the agent.
func (s *settings) clusterFlags() []cli.Flag {
	return []cli.Flag{
		s.cluster.NodeNameFlag("n"),
		s.cluster.KubeconfigFlag(),
		s.cluster.EventsFlag("the progress of a MIG config"),
		s.cluster.NamespaceFlag("the agent's DaemonSet"),
		s.cluster.OwnerFlag("is deleted, or does not select the node any more,"),
	}
}

// configFlags returns the flags for the MIG configs that the label of the Node selects from.
func (s *settings) configFlags() []cli.Flag {
	return []cli.Flag{
		&cli.PathFlag{
			Name: "config-file", Aliases: []string{"f"}, EnvVars: []string{"CONFIG_FILE"}, Destination: &s.configFile,
			Usage: "`FILE` with MIG configs, in addition to those that the agent generates for the GPUs of the node; its configs take precedence",
		},
		&cli.PathFlag{
			Name: "default-config-file", EnvVars: []string{"DEFAULT_CONFIG_FILE"}, Destination: &s.defaultFile,
			Usage: "`FILE` with more MIG configs; if a name is repeated, a generated config and a config of config-file take precedence",
		},
		&cli.StringFlag{
			Name: "default-config", EnvVars: []string{"DEFAULT_CONFIG"}, Destination: &s.defaultConfig,
			Usage: "`NAME` of the config of a Node without the label " + manager.ConfigLabel + "; if empty, the agent does not change the GPUs of such a node",
		},
		&cli.StringFlag{
			Name: "publish-configs", EnvVars: []string{"PUBLISH_CONFIGS"}, Destination: &s.publishAs,
			Usage: "publish the MIG configs that the agent generates in the ConfigMap NODE-mig-config, which belongs to the `POD` of the agent and is deleted with it; if empty, publish none",
		},
	}
}

// usersFlags returns the flags for users of GPUs.
func (s *settings) usersFlags() []cli.Flag {
	return []cli.Flag{
		cmdline.Enum(&cli.StringFlag{
			Name: "gpu-pods", EnvVars: []string{"GPU_PODS"}, Value: string(manager.WaitForPods), Destination: (*string)(&s.options.Policy),
			Usage: "`POLICY` for pods that use a GPU or MIG device that must change: " + text.OneOf(manager.Policies()) + " (until the pods end)",
		}, manager.Policies()...),
		&cli.BoolFlag{
			Name: "cordon", EnvVars: []string{"CORDON"}, Destination: &s.options.Cordon,
			Usage: "cordon the node while a change waits for pods; gpu-pods=evict always does",
		},
		&cli.StringFlag{
			Name: "node-label-for-gpu-pod-eviction", EnvVars: []string{"NODE_LABEL_FOR_GPU_POD_EVICTION"}, Destination: &s.pauseLabel,
			Usage: "another `LABEL` of the Node to pause during a change, in addition to nvidia.com/gpu.deploy.client and similar labels: DaemonSets that select its value true, and hold the driver, leave the node",
		},
		cmdline.Positive(&cli.DurationFlag{
			Name: "poll-interval", EnvVars: []string{"POLL_INTERVAL"}, Value: 2 * time.Second, Destination: &s.options.Poll,
			Usage: "`TIME` between two checks for users of a GPU, while a change waits for them",
		}),
		&cli.PathFlag{
			Name: "pod-resources-kubelet-socket", EnvVars: []string{"POD_RESOURCES_KUBELET_SOCKET"}, Value: podresources.Socket, Destination: &s.kubeletSocket,
			Usage: "`SOCKET` of the kubelet's pod resources API, which lists the GPUs of each container",
		},
		&cli.PathFlag{
			Name: "pod-logs-dir", EnvVars: []string{"POD_LOGS_DIR"}, Value: "/var/log/pods", Destination: &s.podLogs,
			Usage: "`FOLDER` with the kubelet's logs of pods; the agent finds the pod of a process by the names in it",
		},
	}
}

// hostFlags returns the flags for actions on the host.
func (s *settings) hostFlags(shutdown []string) []cli.Flag {
	return []cli.Flag{
		&cli.PathFlag{
			Name: "host-root-mount", Aliases: []string{"m"}, EnvVars: []string{"HOST_ROOT_MOUNT"}, Value: "/host", Destination: &s.hostRoot,
			Usage: "`FOLDER` in which the agent sees run/dbus of the host",
		},
		&cli.PathFlag{
			Name: "gpu-clients-file", Aliases: []string{"g"}, EnvVars: []string{"GPU_CLIENTS_FILE"}, Destination: &s.gpuClients,
			Usage: "`FILE` with the systemd units of the host that use GPUs",
		},
		&cli.BoolFlag{
			Name: "with-shutdown-host-gpu-clients", Aliases: shutdown, EnvVars: []string{"WITH_SHUTDOWN_HOST_GPU_CLIENTS"}, Destination: &s.stopClients,
			Usage: "stop these units before a GPU is reset, and start them again after it",
		},
		&cli.BoolFlag{
			Name: "with-reboot", Aliases: []string{"r"}, EnvVars: []string{"WITH_REBOOT"}, Destination: &s.options.Reboot,
			Usage: "reboot the host if a change of the MIG mode needs it, once for each config",
		},
	}
}

// ignoredFlags returns NVIDIA's flags that have no effect on this agent.
func ignoredFlags() []cli.Flag {
	const follow = "the other agents notice changed MIG devices by themselves"
	return []cli.Flag{
		agent.Ignored("reconfigure-script", "RECONFIGURE_SCRIPT", "the agent changes the GPUs itself", "s"),
		agent.Ignored("host-nvidia-dir", "HOST_NVIDIA_DIR", "nothing is installed on the host", "i"),
		agent.Ignored("host-mig-manager-state-file", "HOST_MIG_MANAGER_STATE_FILE", "the unit for hosts without Kubernetes must not run beside the agent", "o"),
		agent.Ignored("host-kubelet-systemd-service", "HOST_KUBELET_SYSTEMD_SERVICE", "the agent does not stop the kubelet", "k"),
		agent.Ignored("default-gpu-clients-namespace", "DEFAULT_GPU_CLIENTS_NAMESPACE", follow, "p"),
		agent.Ignored("dev-root-ctr-path", "DEV_ROOT_CTR_PATH", "the agent does not write CDI specs", "j"),
		agent.IgnoredSwitch("cdi-enabled", "CDI_ENABLED", follow),
		agent.Ignored("nvidia-cdi-hook-path", "NVIDIA_CDI_HOOK_PATH", follow),
	}
}
