package app

import (
	"slices"
	"time"

	"github.com/urfave/cli/v2"

	"outrigger.dev/agents/mig-manager/internal/manager"
	"outrigger.dev/pkg/agent"
	"outrigger.dev/pkg/agent/cluster"
	"outrigger.dev/pkg/podresources"
	"outrigger.dev/pkg/text"
)

// agentFlags are those of the agent alone. Names and variables are those of NVIDIA's MIG manager,
// where it has the same setting.
func agentFlags() []cli.Flag {
	return slices.Concat(followFlags(), usersFlags(), hostFlags(), ignoredFlags())
}

// agentAliases are the short flags of NVIDIA's MIG manager.
func agentAliases() map[string]string {
	return map[string]string{
		"d": "debug", "n": "node-name", "f": "config-file", "s": "reconfigure-script", "g": "gpu-clients-file", "m": "host-root-mount",
		"i": "host-nvidia-dir", "o": "host-mig-manager-state-file", "k": "host-kubelet-systemd-service", "r": "with-reboot",
		"p": "default-gpu-clients-namespace", "t": "driver-root", "a": "driver-root-ctr-path", "b": "dev-root", "j": "dev-root-ctr-path",
	}
}

// followFlags say what is followed.
func followFlags() []cli.Flag {
	return []cli.Flag{
		cluster.NodeNameFlag(),
		cluster.EventsFlag("what becomes of a MIG config"),
		&cli.StringFlag{
			Name: "namespace", EnvVars: []string{"NAMESPACE"}, Value: "default",
			Usage: "`NAMESPACE` of the agent's DaemonSet",
		},
		cluster.OwnerFlag("is deleted, or does not select the node any more,"),
		&cli.PathFlag{
			Name: "config-file", EnvVars: []string{"CONFIG_FILE"},
			Usage: "`FILE` with MIG configs, in addition to those that the agent generates for the GPUs of the node; its configs take precedence",
		},
		&cli.PathFlag{
			Name: "default-config-file", EnvVars: []string{"DEFAULT_CONFIG_FILE"},
			Usage: "`FILE` with MIG configs that generated ones and those of config-file take precedence over",
		},
		&cli.StringFlag{
			Name: "default-config", EnvVars: []string{"DEFAULT_CONFIG"},
			Usage: "`NAME` of the config of a Node without the label " + manager.ConfigLabel + "; if empty, the GPUs of such a node stay as they are",
		},
	}
}

// usersFlags say what to do about users of GPUs.
func usersFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{
			Name: "gpu-pods", EnvVars: []string{"GPU_PODS"}, Value: string(manager.WaitForPods),
			Usage: "`POLICY` for pods that hold what a change destroys: " + text.OneOf(manager.Policies()) + " (until they end)",
		},
		&cli.BoolFlag{
			Name: "cordon", EnvVars: []string{"CORDON"},
			Usage: "cordon the node while a change waits for pods; gpu-pods=evict always does",
		},
		&cli.DurationFlag{
			Name: "poll-interval", EnvVars: []string{"POLL_INTERVAL"}, Value: 2 * time.Second,
			Usage: "`TIME` between two looks at who uses a GPU, while a change waits for it",
		},
		&cli.PathFlag{
			Name: "pod-resources-kubelet-socket", EnvVars: []string{"POD_RESOURCES_KUBELET_SOCKET"}, Value: podresources.Socket,
			Usage: "`SOCKET` on which the kubelet says which containers hold which GPUs",
		},
		&cli.PathFlag{
			Name: "pod-logs-dir", EnvVars: []string{"POD_LOGS_DIR"}, Value: "/var/log/pods",
			Usage: "`FOLDER` in which the kubelet has the logs of pods, whose names tell the pods of processes",
		},
	}
}

// hostFlags say what the agent does on the host.
func hostFlags() []cli.Flag {
	return []cli.Flag{
		&cli.PathFlag{
			Name: "host-root-mount", EnvVars: []string{"HOST_ROOT_MOUNT"}, Value: "/host",
			Usage: "`FOLDER` in which the agent sees run/dbus of the host",
		},
		&cli.PathFlag{
			Name: "gpu-clients-file", EnvVars: []string{"GPU_CLIENTS_FILE"},
			Usage: "`FILE` with the systemd units of the host that use GPUs",
		},
		&cli.BoolFlag{
			Name: "with-shutdown-host-gpu-clients", EnvVars: []string{"WITH_SHUTDOWN_HOST_GPU_CLIENTS"},
			Usage: "stop these units before a GPU is reset, and start them again after it",
		},
		&cli.BoolFlag{
			Name: "with-reboot", EnvVars: []string{"WITH_REBOOT"},
			Usage: "reboot the host, once for a config, where a MIG mode takes effect only after that",
		},
	}
}

// ignoredFlags are those that have no meaning here.
func ignoredFlags() []cli.Flag {
	const follow = "other agents notice what changes themselves"
	return []cli.Flag{
		agent.Ignored("kubeconfig", "KUBECONFIG", "the agent uses the service account of its pod"),
		agent.Ignored("reconfigure-script", "RECONFIGURE_SCRIPT", "the agent changes the GPUs itself"),
		agent.Ignored("host-nvidia-dir", "HOST_NVIDIA_DIR", "nothing is installed on the host"),
		agent.Ignored("host-mig-manager-state-file", "HOST_MIG_MANAGER_STATE_FILE", "the unit for hosts without Kubernetes must not run beside the agent"),
		agent.Ignored("host-kubelet-systemd-service", "HOST_KUBELET_SYSTEMD_SERVICE", "the kubelet need not be stopped"),
		agent.Ignored("default-gpu-clients-namespace", "DEFAULT_GPU_CLIENTS_NAMESPACE", follow),
		agent.Ignored("dev-root-ctr-path", "DEV_ROOT_CTR_PATH", "the agent makes no CDI specs"),
		agent.IgnoredSwitch("cdi-enabled", "CDI_ENABLED", follow),
		agent.Ignored("nvidia-cdi-hook-path", "NVIDIA_CDI_HOOK_PATH", follow),
	}
}
