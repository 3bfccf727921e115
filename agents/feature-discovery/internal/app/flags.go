package app

import (
	"slices"

	"github.com/urfave/cli/v2"

	"outrigger.dev/pkg/agent"
	"outrigger.dev/pkg/agent/cluster"
	"outrigger.dev/pkg/agent/configfile"
	"outrigger.dev/pkg/config"
)

// flags are the agent's own, with the names and variables of NVIDIA's GPU Feature
// Discovery; docs/feature-discovery.md tells where they differ.
func flags() []cli.Flag {
	return slices.Concat(agent.GPUFlags(), configfile.Flags("GFD_"), configfile.DeviceFlags("GFD_"),
		outputFlags(), readyFlags(), presenceFlags(), apiFlags())
}

// outputFlags say what is published, and where.
func outputFlags() []cli.Flag {
	d := config.Default().GFD
	return []cli.Flag{
		&cli.StringFlag{
			Name: "publish", EnvVars: []string{"PUBLISH"},
			Usage: "`OUTPUT` of labels: node (the Node object), nfd-file (the features file), nodefeature (the object of Node Feature Discovery) or stdout; " +
				"without it, what output-file or use-node-feature-api mean if they are set, and otherwise node",
		},
		&cli.PathFlag{
			Name: "output-file", EnvVars: []string{"GFD_OUTPUT_FILE"}, Value: d.OutputFile,
			Usage: "features `FILE` of Node Feature Discovery; empty for standard output",
		},
		&cli.BoolFlag{
			Name: "use-node-feature-api", EnvVars: []string{"GFD_USE_NODE_FEATURE_API", "USE_NODE_FEATURE_API"},
			Usage: "publish labels as the object of Node Feature Discovery",
		},
		&cli.BoolFlag{
			Name: "oneshot", EnvVars: []string{"GFD_ONESHOT"},
			Usage: "publish labels once, and end",
		},
		&cli.BoolFlag{
			Name: "no-timestamp", EnvVars: []string{"GFD_NO_TIMESTAMP"},
			Usage: "leave out the label with the time at which the labels last changed",
		},
		&cli.StringFlag{
			Name: "sleep-interval", EnvVars: []string{"GFD_SLEEP_INTERVAL"}, Value: d.SleepInterval.String(),
			Usage: "`TIME` between checks that what was published is still there, or infinite; the Node object is watched instead",
		},
		&cli.PathFlag{
			Name: "machine-type-file", EnvVars: []string{"GFD_MACHINE_TYPE_FILE"}, Value: d.MachineTypeFile,
			Usage: "`FILE` with the product name of the machine; the default is that file of sys-root; empty for none",
		},
		&cli.BoolFlag{
			Name: "fail-on-init-error", EnvVars: []string{"GFD_FAIL_ON_INIT_ERROR", "FAIL_ON_INIT_ERROR"},
			Usage: "end with an error if the GPUs cannot be read at the start, instead of waiting until they can",
		},
	}
}

// readyFlags say what is told of the readiness of the GPUs.
func readyFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringSliceFlag{
			Name: "ready-chain", EnvVars: []string{"READY_CHAIN"},
			Usage: "`LINKS` that have to hold for the condition GPUReady of the Node: those of driver, toolkit, plugin, cuda that are installed; empty for no condition",
		},
		&cli.StringFlag{
			Name: "startup-taint", EnvVars: []string{"STARTUP_TAINT"}, Value: "outrigger.dev/gpu-not-ready:NoSchedule",
			Usage: "`TAINT` of the Node, key:effect, that is removed once the condition is true; empty for none",
		},
		cluster.EventsFlag("changes of the condition GPUReady and rejected configs"),
	}
}

// presenceFlags are for the part that runs on every node.
func presenceFlags() []cli.Flag {
	return []cli.Flag{
		&cli.BoolFlag{
			Name: "presence", EnvVars: []string{"PRESENCE"},
			Usage: "tell that the node has GPUs, by the PCI bus alone, and nothing else: it needs neither a driver nor privileges",
		},
		&cli.PathFlag{
			Name: "host-root", EnvVars: []string{"HOST_ROOT"}, Value: ctrHostRoot,
			Usage: "the `FOLDER` that holds the host's etc/os-release or usr/lib/os-release, for presence; without a folder at the default, /",
		},
	}
}

// apiFlags say how the API server is spoken with.
func apiFlags() []cli.Flag {
	return []cli.Flag{
		cluster.NodeNameFlag(),
		&cli.StringFlag{
			Name: "namespace", EnvVars: []string{"NAMESPACE"}, Value: "default",
			Usage: "`NAMESPACE` of the object of Node Feature Discovery: that of the pod",
		},
		&cli.StringFlag{
			Name: "pod-name", EnvVars: []string{"POD_NAME"},
			Usage: "`NAME` of the pod, whose owner then owns that object",
		},
		&cli.StringFlag{
			Name: "kubeconfig", EnvVars: []string{"KUBECONFIG"},
			Usage: "accepted, and not used: the agent speaks with its pod's service account",
		},
		&cli.StringFlag{
			Name: "kube-api-qps", EnvVars: []string{"KUBE_API_QPS"},
			Usage: "accepted, and not used: a request is sent only after a change",
		},
		&cli.StringFlag{
			Name: "kube-api-burst", EnvVars: []string{"KUBE_API_BURST"},
			Usage: "accepted, and not used",
		},
	}
}
