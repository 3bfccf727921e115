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

// readyFlags configure the condition GPUReady.
func readyFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringSliceFlag{
			Name: "ready-chain", EnvVars: []string{"READY_CHAIN"},
			Usage: "`LINKS` that the condition GPUReady of the Node requires: driver, mig, toolkit, plugin and cuda, as far as they are installed; if empty, there is no condition",
		},
		&cli.StringFlag{
			Name: "startup-taint", EnvVars: []string{"STARTUP_TAINT"}, Value: "outrigger.dev/gpu-not-ready:NoSchedule",
			Usage: "`TAINT` of the Node, as key:effect, to remove once the condition is true; if empty, no taint",
		},
		cluster.EventsFlag("changes of the condition GPUReady and rejected configs"),
	}
}

// presenceFlags are for the part of feature discovery that runs on every node.
func presenceFlags() []cli.Flag {
	return []cli.Flag{
		&cli.BoolFlag{
			Name: "presence", EnvVars: []string{"PRESENCE"},
			Usage: "only label the presence of GPUs on the PCI bus; needs neither a driver nor privileges",
		},
		&cli.PathFlag{
			Name: "host-root", EnvVars: []string{"HOST_ROOT"}, Value: ctrHostRoot,
			Usage: "`FOLDER` that contains etc/os-release or usr/lib/os-release of the host, for presence; if the default does not exist, /",
		},
	}
}

// apiFlags configure access to the API server.
func apiFlags() []cli.Flag {
	return []cli.Flag{
		cluster.NodeNameFlag(),
		&cli.StringFlag{
			Name: "namespace", EnvVars: []string{"NAMESPACE"}, Value: "default",
			Usage: "`NAMESPACE` of the pod, and of the NodeFeature object",
		},
		&cli.StringFlag{
			Name: "pod-name", EnvVars: []string{"POD_NAME"},
			Usage: "`NAME` of the pod; the NodeFeature object gets the owner of the pod",
		},
		cluster.OwnerFlag("is deleted, or does not select the node any more,"),
		agent.Ignored("kubeconfig", "KUBECONFIG", "the agent uses the service account of its pod"),
		agent.Ignored("kube-api-qps", "KUBE_API_QPS", "the agent sends requests only after changes"),
		agent.Ignored("kube-api-burst", "KUBE_API_BURST", "the agent sends requests only after changes"),
	}
}
