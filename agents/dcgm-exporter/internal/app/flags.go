package app

import (
	"slices"

	"github.com/urfave/cli/v2"

	"outrigger.dev/pkg/agent"
	"outrigger.dev/pkg/agent/cluster"
	"outrigger.dev/pkg/podresources"
)

// listFile is where NVIDIA's images have the list of metrics.
const listFile = "/etc/dcgm-exporter/default-counters.csv"

// flags are the flags of the exporter. Names, variables and defaults are those of NVIDIA's
// DCGM Exporter; docs/dcgm-exporter.md lists where they differ.
func flags() []cli.Flag {
	return slices.Concat(agent.GPUFlags(), metricFlags(), podFlags(), serverFlags(), ignoredFlags())
}

// metricFlags say what is served.
func metricFlags() []cli.Flag {
	return []cli.Flag{
		&cli.PathFlag{
			Name: "collectors", EnvVars: []string{"DCGM_EXPORTER_COLLECTORS"}, Value: listFile,
			Usage: "`FILE` with the list of metrics, as CSV; if a file in /etc/dcgm-exporter does not exist, the list of the program",
		},
		&cli.StringFlag{
			Name: "configmap-data", EnvVars: []string{"DCGM_EXPORTER_CONFIGMAP_DATA"}, Value: noConfigMap,
			Usage: "ConfigMap with the list of metrics, as `NAMESPACE:NAME`, under the key metrics; collectors counts if it cannot be read. It is read at start and after SIGHUP",
		},
		&cli.BoolFlag{
			Name: "strict", EnvVars: []string{"DCGM_EXPORTER_STRICT"},
			Usage: "do not start with a list of metrics of which not all can be served",
		},
		&cli.IntFlag{
			Name: "collect-interval", EnvVars: []string{"DCGM_EXPORTER_INTERVAL", "DCGM_EXPORTER_COLLECT_INTERVAL"}, Value: 10_000,
			Usage: "`MILLISECONDS` between two readings of a GPU",
		},
		&cli.StringFlag{
			Name: "devices", EnvVars: []string{"DCGM_EXPORTER_DEVICES_STR"}, Value: "f",
			Usage: "`DEVICES` that have metrics: f (all), g[:LIST] (GPUs by index), i[:LIST] (GPU instances by id), or both with a +; for example g:0,2-3",
		},
		&cli.StringFlag{
			Name: "metric-names", EnvVars: []string{"DCGM_EXPORTER_METRIC_NAMES"}, Value: "legacy",
			Usage: "`NAMES` of metrics: legacy (as the list has them), dcgm47 (those of DCGM 4.7, with its base units) or both",
		},
		&cli.StringFlag{
			Name: "hostname-label", EnvVars: []string{"DCGM_EXPORTER_HOSTNAME_LABEL"}, Value: "Hostname",
			Usage: "`LABEL` with the name of the node: Hostname, hostname or both",
		},
		&cli.StringFlag{
			Name: "mig-gpu-metrics", EnvVars: []string{"DCGM_EXPORTER_MIG_GPU_METRICS"}, Value: "duplicate",
			Usage: "`HOW` to serve a value of a whole GPU, such as its power, in MIG mode: duplicate (with each GPU instance) or dedupe (once, so that sums are right)",
		},
		&cli.BoolFlag{
			Name: "use-old-namespace", EnvVars: []string{"DCGM_EXPORTER_USE_OLD_NAMESPACE"},
			Usage: "name labels as DCGM Exporter 1.x did: uuid, pod_name, pod_namespace and container_name",
		},
		&cli.BoolFlag{
			Name: "replace-blanks-in-model-name", EnvVars: []string{"DCGM_EXPORTER_REPLACE_BLANKS_IN_MODEL_NAME"},
			Usage: "put - in place of blanks in the label modelName",
		},
		&cli.PathFlag{
			Name: "kernel-log", EnvVars: []string{"DCGM_EXPORTER_KERNEL_LOG"}, Value: "/dev/kmsg",
			Usage: "`FILE` with the kernel's log, which has the XIDs 79, 119 and 120: NVML does not report them; if empty, they are not looked for",
		},
		&cli.IntFlag{
			Name: "xid-count-window-size", EnvVars: []string{"DCGM_EXPORTER_XID_COUNT_WINDOW_SIZE"}, Value: 300_000,
			Usage: "`MILLISECONDS` for which an error counts in DCGM_EXP_XID_ERRORS_COUNT",
		},
		&cli.IntFlag{
			Name: "clock-events-count-window-size", EnvVars: []string{"DCGM_EXPORTER_CLOCK_EVENTS_COUNT_WINDOW_SIZE"}, Value: 300_000,
			Usage: "`MILLISECONDS` for which a reading counts in DCGM_EXP_CLOCK_EVENTS_COUNT",
		},
	}
}

// podFlags say how the pods of a GPU are found.
func podFlags() []cli.Flag {
	return []cli.Flag{
		cluster.NodeNameFlag(),
		&cli.BoolFlag{
			Name: "kubernetes", EnvVars: []string{"DCGM_EXPORTER_KUBERNETES"},
			Usage: "add the labels pod, namespace and container of the container that uses a GPU",
		},
		&cli.PathFlag{
			Name: "pod-resources-kubelet-socket", EnvVars: []string{"DCGM_POD_RESOURCES_KUBELET_SOCKET"}, Value: podresources.Socket,
			Usage: "`SOCKET` on which the kubelet says which containers use which GPUs",
		},
		&cli.StringSliceFlag{
			Name: "nvidia-resource-names", EnvVars: []string{"NVIDIA_RESOURCE_NAMES"},
			Usage: "`RESOURCES` of Kubernetes that are GPUs, beside nvidia.com/gpu and nvidia.com/mig-<profile>",
		},
		&cli.BoolFlag{
			Name: "kubernetes-enable-pod-labels", EnvVars: []string{"DCGM_EXPORTER_KUBERNETES_ENABLE_POD_LABELS"},
			Usage: "add the labels of the pod, which needs the verbs list and watch on pods",
		},
		&cli.StringSliceFlag{
			Name: "kubernetes-pod-label-allowlist-regex", EnvVars: []string{"DCGM_EXPORTER_KUBERNETES_POD_LABEL_ALLOWLIST_REGEX"},
			Usage: "`EXPRESSIONS` for the keys of the labels of pods that are added; all by default",
		},
		&cli.BoolFlag{
			Name: "kubernetes-enable-pod-uid", EnvVars: []string{"DCGM_EXPORTER_KUBERNETES_ENABLE_POD_UID"},
			Usage: "add the label pod_uid, which needs the verbs list and watch on pods",
		},
		&cli.PathFlag{
			Name: "hpc-job-mapping-dir", EnvVars: []string{"DCGM_HPC_JOB_MAPPING_DIR"},
			Usage: "`FOLDER` in which a batch system writes the jobs on each GPU",
		},
		&cli.PathFlag{
			Name: "pod-logs-dir", EnvVars: []string{"POD_LOGS_DIR"}, Value: "/var/log/pods",
			Usage: "`FOLDER` in which the kubelet has the logs of pods, whose names tell the pods of the processes on a shared GPU",
		},
		&cli.BoolFlag{
			Name: "kubernetes-virtual-gpus", EnvVars: []string{"KUBERNETES_VIRTUAL_GPUS"},
			Usage: "serve the metrics of a shared GPU once for each of its containers too, with the label vgpu",
		},
	}
}

// serverFlags configure the server.
func serverFlags() []cli.Flag {
	return []cli.Flag{
		&cli.PathFlag{
			Name: "web-config-file", EnvVars: []string{"DCGM_EXPORTER_WEB_CONFIG_FILE"},
			Usage: "`FILE` with certificates, client certificates and passwords of users, in the format of Prometheus exporters",
		},
	}
}

// ignoredFlags are those that have no meaning here.
func ignoredFlags() []cli.Flag {
	const (
		noEngine = "there is no host engine: the metrics come from NVML"
		noDump   = "the exporter has nothing to dump: the metrics are all it knows"
		always   = "GPUs that come and go are always noticed"
	)
	return []cli.Flag{
		agent.Ignored("remote-hostengine-info", "DCGM_REMOTE_HOSTENGINE_INFO", noEngine),
		agent.IgnoredSwitch("enable-dcgm-log", "DCGM_EXPORTER_ENABLE_DCGM_LOG", noEngine),
		agent.Ignored("dcgm-log-level", "DCGM_EXPORTER_DCGM_LOG_LEVEL", noEngine),
		agent.Ignored("switch-devices", "DCGM_EXPORTER_OTHER_SWITCH_DEVICES", "NVML has no metrics of switches"),
		agent.Ignored("cpu-devices", "DCGM_EXPORTER_CPU_DEVICES_STR", "NVML has no metrics of CPUs"),
		agent.IgnoredSwitch("no-hostname", "DCGM_EXPORTER_NO_HOSTNAME", "it has no effect in NVIDIA's exporter either"),
		agent.IgnoredSwitch("disable-startup-validate", "DISABLE_STARTUP_VALIDATE", "the exporter waits for the driver"),
		agent.Ignored("kubernetes-gpu-id-type", "DCGM_EXPORTER_KUBERNETES_GPU_ID_TYPE", "all forms of ids are known"),
		agent.IgnoredSwitch("kubernetes-enable-dra", "KUBERNETES_ENABLE_DRA", "the kubelet lists devices of claims too"),
		agent.IgnoredSwitch("enable-gpu-bind-unbind-watch", "DCGM_EXPORTER_ENABLE_GPU_BIND_UNBIND_WATCH", always),
		agent.Ignored("gpu-bind-unbind-poll-interval", "DCGM_EXPORTER_GPU_BIND_UNBIND_POLL_INTERVAL", always),
		agent.IgnoredSwitch("fake-gpus", "DCGM_EXPORTER_USE_FAKE_GPUS", "it is for tests of NVIDIA's exporter"),
		agent.IgnoredSwitch("debug", "DCGM_EXPORTER_DEBUG", "set --log-level=debug"),
		agent.IgnoredSwitch("enable-pprof", "DCGM_EXPORTER_ENABLE_PPROF", "the exporter serves no profiles of itself"),
		agent.IgnoredSwitch("web-systemd-socket", "DCGM_EXPORTER_WEB_SYSTEMD_SOCKET", "the exporter opens its port itself, see --listen"),
		agent.IgnoredSwitch("dump-enabled", "DCGM_EXPORTER_DUMP_ENABLED", noDump),
		agent.Ignored("dump-directory", "DCGM_EXPORTER_DUMP_DIRECTORY", noDump),
		agent.Ignored("dump-retention", "DCGM_EXPORTER_DUMP_RETENTION", noDump),
		agent.IgnoredSwitch("dump-compression", "DCGM_EXPORTER_DUMP_COMPRESSION", noDump),
	}
}

// aliases are short and other names of flags in NVIDIA's DCGM Exporter.
func aliases() map[string]string {
	return map[string]string{
		"address": "listen", "a": "listen", "f": "collectors", "c": "collect-interval", "k": "kubernetes",
		"o": "use-old-namespace", "d": "devices", "r": "remote-hostengine-info", "s": "switch-devices", "p": "cpu-devices",
		"m": "configmap-data", "n": "no-hostname", "x": "xid-count-window-size", "rbmn": "replace-blanks-in-model-name",
	}
}
