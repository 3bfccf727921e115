package app

import (
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"outrigger.dev/agents/dcgm-exporter/internal/exposition"
	"outrigger.dev/pkg/agent"
	"outrigger.dev/pkg/cmdline"
	"outrigger.dev/pkg/cmdline/category"
	"outrigger.dev/pkg/podresources"
)

// listFile is the path of the list of metrics in NVIDIA's images.
const listFile = "/etc/dcgm-exporter/default-counters.csv"

// flags returns the flags of the exporter. They have the names, environment variables and
// defaults of NVIDIA's DCGM Exporter. docs/dcgm-exporter-reference.md lists the differences.
func (s *settings) flags() []cli.Flag {
	return slices.Concat(
		s.host.GPUFlags(),
		cmdline.Under(category.Metrics, s.metricFlags()...),
		cmdline.Under(category.Kubernetes, s.podFlags()...),
		cmdline.Under(category.Server, s.serverFlags()...),
		ignoredFlags(),
	)
}

// metricFlags returns the flags that select the served metrics.
func (s *settings) metricFlags() []cli.Flag {
	positive := func(n int) bool { return n > 0 }
	return []cli.Flag{
		&cli.PathFlag{
			Name: "collectors", Aliases: []string{"f"}, EnvVars: []string{"DCGM_EXPORTER_COLLECTORS"}, Value: listFile, Destination: &s.collectors,
			Usage: "`FILE` with the list of metrics, as CSV; if a file in /etc/dcgm-exporter does not exist, the exporter uses its built-in list",
		},
		cmdline.Check(&cli.StringFlag{
			Name: "configmap-data", Aliases: []string{"m"}, EnvVars: []string{"DCGM_EXPORTER_CONFIGMAP_DATA"}, Value: noConfigMap, Destination: &s.configMap,
			Usage: "ConfigMap, as `NAMESPACE:NAME`, with the list of metrics under the key metrics; the exporter reads it at start and after SIGHUP, and uses --collectors if it cannot read it",
		}, "NAMESPACE:NAME, or none", func(v string) bool {
			namespace, object, _ := strings.Cut(v, ":")
			return v == "" || v == noConfigMap || namespace != "" && object != ""
		}),
		&cli.BoolFlag{
			Name: "strict", EnvVars: []string{"DCGM_EXPORTER_STRICT"}, Destination: &s.strict,
			Usage: "do not start if a metric of the list cannot be served",
		},
		cmdline.Check(&cli.IntFlag{
			Name: "collect-interval", Aliases: []string{"c"}, EnvVars: []string{"DCGM_EXPORTER_INTERVAL", "DCGM_EXPORTER_COLLECT_INTERVAL"}, Value: 10_000, Destination: &s.interval,
			Usage: "`MILLISECONDS` between two readings of a GPU",
		}, "200 to 3600000", func(ms int) bool { return 200 <= ms && ms <= 3_600_000 }), // GPM needs 100 ms between two readings
		cmdline.Check(&cli.StringFlag{
			Name: "devices", Aliases: []string{"d"}, EnvVars: []string{"DCGM_EXPORTER_DEVICES_STR"}, Value: "f", Destination: &s.devices,
			Usage: "`DEVICES` that have metrics: f (all), g[:LIST] (GPUs by index), i[:LIST] (GPU instances by id), or both with a +; for example g:0,2-3",
		}, "f, g[:LIST] or i[:LIST], where LIST is for example 0,2-3", func(v string) bool { _, err := parseDevices(v); return err == nil }),
		cmdline.Enum(&cli.StringFlag{
			Name: "metric-names", EnvVars: []string{"DCGM_EXPORTER_METRIC_NAMES"}, Value: "legacy", Destination: (*string)(&s.options.Names),
			Usage: "`NAMES` of metrics: legacy (as the list has them), dcgm47 (those of DCGM 4.7, with its base units) or both",
		}, exposition.Spelled, exposition.DCGM47, exposition.Both),
		cmdline.Enum(&cli.StringFlag{
			Name: "hostname-label", EnvVars: []string{"DCGM_EXPORTER_HOSTNAME_LABEL"}, Value: "Hostname", Destination: &s.hostname,
			Usage: "`LABEL` with the name of the node: Hostname, hostname or both",
		}, "Hostname", "hostname", "both"),
		cmdline.Enum(&cli.StringFlag{
			Name: "mig-gpu-metrics", EnvVars: []string{"DCGM_EXPORTER_MIG_GPU_METRICS"}, Value: "duplicate", Destination: &s.mig,
			Usage: "`HOW` to serve a value of a whole GPU, such as its power, in MIG mode: duplicate (with each GPU instance) or dedupe (once, so that sums are right); values of PCIe and NVLink are always served once",
		}, "duplicate", "dedupe"),
		&cli.BoolFlag{
			Name: "use-old-namespace", Aliases: []string{"o"}, EnvVars: []string{"DCGM_EXPORTER_USE_OLD_NAMESPACE"}, Destination: &s.options.OldNamespace,
			Usage: "name labels as DCGM Exporter 1.x did: uuid, pod_name, pod_namespace and container_name",
		},
		&cli.BoolFlag{
			Name: "replace-blanks-in-model-name", Aliases: []string{"rbmn"}, EnvVars: []string{"DCGM_EXPORTER_REPLACE_BLANKS_IN_MODEL_NAME"}, Destination: &s.options.ReplaceBlanks,
			Usage: "put - in place of blanks in the label modelName",
		},
		&cli.PathFlag{
			Name: "kernel-log", EnvVars: []string{"DCGM_EXPORTER_KERNEL_LOG"}, Value: "/dev/kmsg", Destination: &s.kernelLog, Category: category.Node,
			Usage: "`FILE` with the kernel's log, for the XIDs 79, 119 and 120, which NVML does not report; if empty, the exporter does not serve them",
		},
		cmdline.Check(&cli.IntFlag{
			Name: "xid-count-window-size", Aliases: []string{"x"}, EnvVars: []string{"DCGM_EXPORTER_XID_COUNT_WINDOW_SIZE"}, Value: 300_000, Destination: &s.xidWindow,
			Usage: "`MILLISECONDS` for which an error counts in DCGM_EXP_XID_ERRORS_COUNT",
		}, "a number above 0", positive),
		cmdline.Check(&cli.IntFlag{
			Name: "clock-events-count-window-size", EnvVars: []string{"DCGM_EXPORTER_CLOCK_EVENTS_COUNT_WINDOW_SIZE"}, Value: 300_000, Destination: &s.clockWindow,
			Usage: "`MILLISECONDS` for which a reading counts in DCGM_EXP_CLOCK_EVENTS_COUNT",
		}, "a number above 0", positive),
	}
}

// podFlags returns the flags that control how the pods of a GPU are found.
func (s *settings) podFlags() []cli.Flag {
	return []cli.Flag{
		s.cluster.NodeNameFlag(),
		&cli.BoolFlag{
			Name: "kubernetes", Aliases: []string{"k"}, EnvVars: []string{"DCGM_EXPORTER_KUBERNETES"}, Destination: &s.kubernetes,
			Usage: "add the labels pod, namespace and container of the container that uses a GPU",
		},
		&cli.PathFlag{
			Name: "pod-resources-kubelet-socket", EnvVars: []string{"DCGM_POD_RESOURCES_KUBELET_SOCKET"}, Value: podresources.Socket, Destination: &s.kubeletSocket,
			Usage: "`SOCKET` of the kubelet's PodResources API, which lists the GPUs of each container",
		},
		cmdline.List(&cli.StringSliceFlag{
			Name: "nvidia-resource-names", EnvVars: []string{"NVIDIA_RESOURCE_NAMES"},
			Usage: "`RESOURCES` of Kubernetes that are GPUs, beside nvidia.com/gpu and nvidia.com/mig-<profile>",
		}, &s.resources),
		&cli.BoolFlag{
			Name: "kubernetes-enable-pod-labels", EnvVars: []string{"DCGM_EXPORTER_KUBERNETES_ENABLE_POD_LABELS"}, Destination: &s.podLabels,
			Usage: "add the labels of the pod, which needs the verbs list and watch on pods",
		},
		cmdline.List(&cli.StringSliceFlag{
			Name: "kubernetes-pod-label-allowlist-regex", EnvVars: []string{"DCGM_EXPORTER_KUBERNETES_POD_LABEL_ALLOWLIST_REGEX"},
			Usage: "regular `EXPRESSIONS`; the exporter adds only labels of pods with a matching key; by default, it adds all",
		}, &s.podLabelAllow),
		&cli.BoolFlag{
			Name: "kubernetes-enable-pod-uid", EnvVars: []string{"DCGM_EXPORTER_KUBERNETES_ENABLE_POD_UID"}, Destination: &s.podUID,
			Usage: "add the label pod_uid, which needs the verbs list and watch on pods",
		},
		&cli.PathFlag{
			Name: "hpc-job-mapping-dir", EnvVars: []string{"DCGM_HPC_JOB_MAPPING_DIR"}, Destination: &s.jobsDir, Category: category.Metrics,
			Usage: "`FOLDER` with a file for each GPU, in which a batch system lists the jobs on the GPU",
		},
		&cli.PathFlag{
			Name: "pod-logs-dir", EnvVars: []string{"POD_LOGS_DIR"}, Value: "/var/log/pods", Destination: &s.podLogs,
			Usage: "`FOLDER` with the kubelet's logs of pods, whose names identify the pod of a process on a shared GPU",
		},
		&cli.BoolFlag{
			Name: "kubernetes-virtual-gpus", EnvVars: []string{"KUBERNETES_VIRTUAL_GPUS"}, Destination: &s.options.VirtualGPUs,
			Usage: "also serve the metrics of a shared GPU for each of its containers, with the label vgpu",
		},
	}
}

// serverFlags returns the flags that configure the HTTP server.
func (s *settings) serverFlags() []cli.Flag {
	return []cli.Flag{
		&cli.PathFlag{
			Name: "web-config-file", EnvVars: []string{"DCGM_EXPORTER_WEB_CONFIG_FILE"}, Destination: &s.webConfig,
			Usage: "`FILE` with certificates, client certificates and passwords of users, in the format of Prometheus exporters",
		},
	}
}

// ignoredFlags returns the flags of NVIDIA's DCGM Exporter that have no effect.
func ignoredFlags() []cli.Flag {
	const (
		noEngine = "there is no host engine: the metrics come from NVML"
		noDump   = "the exporter has no state to dump, only the metrics"
		always   = "the exporter always notices added and removed GPUs"
	)
	return []cli.Flag{
		agent.IgnoredSwitch("enable-exporter-metrics", "DCGM_EXPORTER_ENABLE_EXPORTER_METRICS", "the exporter always serves metrics of itself"),
		agent.Ignored("container-labels", "DCGM_EXPORTER_CONTAINER_LABELS", "the exporter has the labels of pods only"),
		agent.Ignored("container-runtime-socket", "DCGM_CONTAINER_RUNTIME_SOCKET", "the exporter does not ask the container engine"),
		agent.Ignored("config-file", "DCGM_EXPORTER_CONFIG_FILE", "set flags or environment variables"),
		agent.Ignored("remote-hostengine-info", "DCGM_REMOTE_HOSTENGINE_INFO", noEngine, "r"),
		agent.IgnoredSwitch("enable-dcgm-log", "DCGM_EXPORTER_ENABLE_DCGM_LOG", noEngine),
		agent.Ignored("dcgm-log-level", "DCGM_EXPORTER_DCGM_LOG_LEVEL", noEngine),
		agent.Ignored("switch-devices", "DCGM_EXPORTER_OTHER_SWITCH_DEVICES", "NVML has no metrics of switches", "s"),
		agent.Ignored("cpu-devices", "DCGM_EXPORTER_CPU_DEVICES_STR", "NVML has no metrics of CPUs", "p"),
		agent.IgnoredSwitch("no-hostname", "DCGM_EXPORTER_NO_HOSTNAME", "it has no effect in NVIDIA's exporter either", "n"),
		agent.IgnoredSwitch("disable-startup-validate", "DISABLE_STARTUP_VALIDATE", "the exporter waits for the driver"),
		agent.Ignored("kubernetes-gpu-id-type", "DCGM_EXPORTER_KUBERNETES_GPU_ID_TYPE", "the exporter recognizes all forms of ids"),
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
