// Package app wires the agent and its commands. Each command reads its flags, observes the node or
// reads a snapshot, and calls the packages that decide: migconfig derives the desired state of GPUs,
// and plan and apply derive and make the changes.
package app

import (
	"path/filepath"
	"slices"
	"time"

	"github.com/urfave/cli/v2"

	"outrigger.dev/agents/mig-manager/internal/manager"
	"outrigger.dev/pkg/agent"
	"outrigger.dev/pkg/agent/cluster"
	"outrigger.dev/pkg/cmdline"
	"outrigger.dev/pkg/cmdline/category"
)

const (
	name = "mig-manager"
	// parted is the command-line program that these commands replace. Under its name, there is no agent.
	parted = "nvidia-mig-parted"
)

// stopLimit is how long a change of MIG layouts may continue after a signal to stop. A change that
// has begun is finished, which may include a reset of GPUs.
const stopLimit = 5*time.Minute + 30*time.Second

// Named returns the App for the path of the started program. Under the names of NVIDIA's
// MIG manager, it is the agent, with -d as a short form of NVIDIA's flag.
func Named(program string) agent.App {
	switch filepath.Base(program) {
	case parted:
		return Parted()
	case "nvidia-mig-manager", "k8s-mig-manager", "nvidia-k8s-mig-manager":
		return newApp(nil, []string{"d"})
	default:
		return App()
	}
}

// App describes the agent.
func App() agent.App { return newApp([]string{"d"}, nil) }

// newApp returns the agent. debug and shutdown are aliases of --debug and --with-shutdown-host-gpu-clients.
func newApp(debug, shutdown []string) agent.App {
	s := &settings{options: manager.Options{RebootPause: rebootPause}}
	return agent.App{
		Name:  name,
		Usage: "divides the GPUs of this node into MIG devices, by the config that a label of the Node selects",
		Examples: []cmdline.Example{
			{Purpose: "Apply the MIG config that the label nvidia.com/mig.config of the Node selects", Line: "mig-manager --node-name=node1"},
			{Purpose: "Print the changes that a config needs, with drawings, and change nothing", Line: "mig-manager plan -f config.yaml -c all-balanced --draw"},
			{Purpose: "Apply a config once; this needs no cluster", Line: "mig-manager apply -f config.yaml -c all-balanced"},
		},
		Flags: slices.Concat(
			append(s.host.Flags("t", "a", "b"), s.host.IndexFlag()),
			s.commandFlags(debug),
			cmdline.Under(category.Kubernetes, s.clusterFlags()...),
			cmdline.Under(category.MIG, slices.Concat(s.configFlags(), s.usersFlags())...),
			cmdline.Under(category.Node, s.hostFlags(shutdown)...),
			ignoredFlags(),
		),
		Host:      &s.host,
		Listen:    ":9417",
		New:       s.newAgent,
		Commands:  s.commands(),
		StopLimit: stopLimit,
	}
}

// Parted describes the command line nvidia-mig-parted. Its exit code is 0 or 1.
func Parted() agent.App {
	s := &settings{}
	return agent.App{
		Name:  parted,
		Usage: "divides the GPUs of this node into MIG devices, by a config",
		Examples: []cmdline.Example{
			{Purpose: "Print the changes that a config needs, with drawings, and change nothing", Line: "nvidia-mig-parted plan -f config.yaml -c all-balanced --draw"},
			{Purpose: "Apply a config", Line: "nvidia-mig-parted apply -f config.yaml -c all-balanced"},
			{Purpose: "Save the layouts of the GPUs as a config", Line: "nvidia-mig-parted export > config.yaml"},
		},
		Flags:     slices.Concat(s.host.Flags(), []cli.Flag{s.host.IndexFlag()}, s.commandFlags([]string{"d"})),
		Host:      &s.host,
		Commands:  s.commands(),
		StopLimit: stopLimit,
		UsageCode: 1,
	}
}

// settings holds the values of the program's flags.
type settings struct {
	host     agent.Host
	stateDir string
	debug    bool
	// leaseWait is how long a command waits for another program that has claimed NVML.
	leaseWait time.Duration

	// Only the agent uses the fields below.
	cluster                 cluster.Settings
	options                 manager.Options
	configFile, defaultFile string
	defaultConfig           string
	kubeletSocket, podLogs  string
	publishAs, pauseLabel   string
	hostRoot                string
	gpuClients              string
	stopClients             bool
}

// commandFlags returns the flags for all commands, except the flags of the host.
func (s *settings) commandFlags(debug []string) []cli.Flag {
	return []cli.Flag{
		&cli.PathFlag{
			Name: "state-dir", EnvVars: []string{"STATE_DIR"}, Value: "/var/lib/nvidia-mig-manager", Destination: &s.stateDir, Category: category.MIG,
			Usage: "`FOLDER` for the journal of unfinished changes, which must survive restarts",
		},
		&cli.BoolFlag{
			Name: "debug", Aliases: debug, EnvVars: []string{"MIG_PARTED_DEBUG"}, Destination: &s.debug, Category: category.Logging,
			Usage: "log each step of a command, as with --log-level debug",
		},
		cmdline.Check(&cli.DurationFlag{
			Name: "lease-timeout", EnvVars: []string{"MIG_PARTED_LEASE_TIMEOUT"}, Value: 5 * time.Minute, Destination: &s.leaseWait, Category: category.MIG,
			Usage: "`TIME` that a command waits while another program changes GPUs; 0 to fail at once",
		}, "a duration of at least 0", func(d time.Duration) bool { return d >= 0 }),
	}
}

func (s *settings) commands() []*cli.Command {
	return []*cli.Command{
		s.applyCommand(), s.assertCommand(), s.exportCommand(), s.planCommand(), s.validateCommand(),
		s.generateCommand(), s.snapshotCommand(), s.checkpointCommand(), s.restoreCommand(),
	}
}
