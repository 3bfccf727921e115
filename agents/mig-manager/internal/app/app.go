// Package app wires the agent and its commands. Each command reads its flags, observes the
// node or a snapshot of it, and calls the packages that decide: migconfig says what GPUs
// shall have, plan and apply how they get it.
package app

import (
	"path/filepath"
	"slices"
	"time"

	"github.com/urfave/cli/v2"

	"outrigger.dev/pkg/agent"
)

const (
	name = "mig-manager"
	// parted is the program whose commands these are. By this name there is no agent.
	parted = "nvidia-mig-parted"
)

// stopLimit is how long a change of MIG layouts goes on after a signal to stop: what has
// begun is brought to an end, which may include a reset of GPUs.
const stopLimit = 5*time.Minute + 30*time.Second

// Named returns the App of a program, by the path with which it was started. Under the names of
// NVIDIA's MIG manager, it is the agent, and -d is its flag of that letter.
func Named(program string) agent.App {
	switch filepath.Base(program) {
	case parted:
		return Parted()
	case "nvidia-mig-manager", "k8s-mig-manager", "nvidia-k8s-mig-manager":
		a := App()
		a.Aliases["d"] = "with-shutdown-host-gpu-clients"
		return a
	default:
		return App()
	}
}

// App describes the agent.
func App() agent.App {
	return agent.App{
		Name:      name,
		Usage:     "divides the GPUs of this node into MIG devices, as a config and a label of the node say",
		Flags:     slices.Concat(nodeFlags(), agentFlags()),
		Aliases:   agentAliases(),
		Listen:    ":9417",
		New:       newAgent,
		Commands:  commands(),
		StopLimit: stopLimit,
	}
}

// Parted describes the command line nvidia-mig-parted, which ends with 0 or 1.
func Parted() agent.App {
	return agent.App{
		Name:      parted,
		Usage:     "divides the GPUs of this node into MIG devices, as a config says",
		Flags:     nodeFlags(),
		Aliases:   map[string]string{"d": "debug"},
		Commands:  commands(),
		StopLimit: stopLimit,
		UsageCode: 1,
	}
}

// nodeFlags say where the node is, and what every command needs.
func nodeFlags() []cli.Flag {
	return append(agent.HostFlags(),
		&cli.PathFlag{
			Name: "state-dir", EnvVars: []string{"STATE_DIR"}, Value: "/var/lib/nvidia-mig-manager",
			Usage: "`FOLDER` with what has to outlive the process: the journal of changes under way",
		},
		&cli.BoolFlag{
			Name: "debug", EnvVars: []string{"MIG_PARTED_DEBUG"},
			Usage: "log what commands do, as --log-level debug does; also as -d",
		},
	)
}

func commands() []*cli.Command {
	return []*cli.Command{
		applyCommand(), assertCommand(), exportCommand(), planCommand(), validateCommand(),
		generateCommand(), snapshotCommand(), checkpointCommand(), restoreCommand(),
	}
}
