package app

import (
	"slices"

	"github.com/urfave/cli/v2"

	"outrigger.dev/pkg/agent"
	"outrigger.dev/pkg/cmdline"
	"outrigger.dev/pkg/cmdline/category"
	"outrigger.dev/pkg/config"
)

// flags returns the flags of feature discovery. They have the names and environment variables
// of NVIDIA's GPU Feature Discovery. docs/feature-discovery-migration.md lists the differences.
func (s *settings) flags() []cli.Flag {
	return slices.Concat(
		s.gpus.HostFlags(),
		s.gpus.File.Flags("GFD_"),
		s.gpus.Flags("GFD_", config.DeviceOptions()...),
		cmdline.Under(category.Labels, s.publishFlag()),
		s.gpus.Flags("", config.GFDOptions()...),
		cmdline.Under(category.Health, s.readyFlags()...),
		cmdline.Under(category.Labels, s.presenceFlags()...),
		cmdline.Under(category.Kubernetes, s.apiFlags()...),
	)
}

func (s *settings) publishFlag() cli.Flag {
	return cmdline.Enum(&cli.StringFlag{
		Name: "publish", EnvVars: []string{"PUBLISH"}, Destination: &s.publish,
		Usage: "`OUTPUT` for labels: node (the Node object), nfd-file (the features file), nodefeature (a NodeFeature object of Node Feature Discovery) or stdout; " +
			"if empty, --output-file or --use-node-feature-api selects the output, and without them the output is node",
	}, publishNode, publishFile, publishNodeFeature, publishStdout)
}

// readyFlags returns the flags for the condition GPUReady.
func (s *settings) readyFlags() []cli.Flag {
	return []cli.Flag{
		cmdline.List(&cli.StringSliceFlag{
			Name: "ready-chain", EnvVars: []string{"READY_CHAIN"},
			Usage: "`LINKS` that the condition GPUReady of the Node requires: driver, mig, toolkit, plugin and cuda; name only the installed ones; if empty, there is no condition",
		}, &s.readyChain),
		cmdline.Check(&cli.StringFlag{
			Name: "startup-taint", EnvVars: []string{"STARTUP_TAINT"}, Value: "outrigger.dev/gpu-not-ready:NoSchedule", Destination: &s.startupTaint,
			Usage: "`TAINT` of the Node, as key:effect, to remove once the condition is true; if empty, no taint",
		}, "key:effect, with the effect NoSchedule, PreferNoSchedule or NoExecute", func(v string) bool { _, ok := parseTaint(v); return ok }),
		s.cluster.EventsFlag("changes of the condition GPUReady and rejected configs"),
	}
}

// presenceFlags returns the flags for the part of feature discovery that runs on every node.
func (s *settings) presenceFlags() []cli.Flag {
	return []cli.Flag{
		&cli.BoolFlag{
			Name: "presence", EnvVars: []string{"PRESENCE"}, Destination: &s.presence,
			Usage: "only label the presence of GPUs on the PCI bus; needs neither a driver nor privileges",
		},
		&cli.PathFlag{
			Name: "host-root", EnvVars: []string{"HOST_ROOT"}, DefaultText: `"` + ctrHostRoot + `"`, Destination: &s.hostRoot, Category: category.Node,
			Usage: "`FOLDER` that contains etc/os-release or usr/lib/os-release of the host, for --presence; if the default does not exist, /",
		},
	}
}

// apiFlags returns the flags for access to the API server.
func (s *settings) apiFlags() []cli.Flag {
	return []cli.Flag{
		s.cluster.NodeNameFlag(),
		s.cluster.KubeconfigFlag(),
		s.cluster.NamespaceFlag("the pod, and of the NodeFeature object"),
		&cli.StringFlag{
			Name: "pod-name", EnvVars: []string{"POD_NAME"}, Destination: &s.podName,
			Usage: "`NAME` of the pod; the NodeFeature object gets the owner of the pod",
		},
		s.cluster.OwnerFlag("is deleted, or does not select the node any more,"),
		agent.Ignored("kube-api-qps", "KUBE_API_QPS", "the agent sends requests only after changes"),
		agent.Ignored("kube-api-burst", "KUBE_API_BURST", "the agent sends requests only after changes"),
	}
}
