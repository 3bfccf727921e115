package app

import (
	"slices"

	"github.com/urfave/cli/v2"

	"outrigger.dev/pkg/agent"
	"outrigger.dev/pkg/agent/cluster"
	"outrigger.dev/pkg/agent/configfile"
	"outrigger.dev/pkg/agent/gpuconfig"
	"outrigger.dev/pkg/config"
)

// flags are the flags of feature discovery. Names and variables are those of
// NVIDIA's GPU Feature Discovery; docs/feature-discovery.md lists where they differ.
func flags() []cli.Flag {
	return slices.Concat(
		agent.GPUFlags(),
		configfile.Flags("GFD_"),
		gpuconfig.Flags("GFD_", config.DeviceOptions()...),
		[]cli.Flag{publishFlag()},
		gpuconfig.Flags("", config.GFDOptions()...),
		readyFlags(), presenceFlags(), apiFlags(),
	)
}

func publishFlag() cli.Flag {
	return &cli.StringFlag{
		Name: "publish", EnvVars: []string{"PUBLISH"},
		Usage: "`OUTPUT` for labels: node (the Node object), nfd-file (the features file), nodefeature (a NodeFeature object of Node Feature Discovery) or stdout; " +
			"if empty, output-file or use-node-feature-api selects the output if set, and node is the default",
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
