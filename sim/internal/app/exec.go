package app

import (
	"fmt"
	"os"
	"os/exec"

	"github.com/urfave/cli/v2"
	"golang.org/x/sys/unix"

	"outrigger.dev/sim/internal/node"
)

func driverRootFlag(root *string) cli.Flag {
	return &cli.StringFlag{
		Name: "driver-root", Value: node.HostRoot, Destination: root, EnvVars: []string{"GPU_SIM_DRIVER_ROOT"},
		Usage: "`PATH` of the driver: / for a driver installed on the machine, /run/nvidia/driver for a driver in a container",
	}
}

func execCommand() *cli.Command {
	var root string
	return command{
		name: "exec", args: "-- COMMAND [ARGUMENT…]", usage: "run a command in a simulated node",
		description: "The command replaces gpu-sim and runs in a private mount namespace. Signals and exit code are those of the command.",
		flags:       []cli.Flag{driverRootFlag(&root)},
		min:         1, max: -1,
		run: func(c *cli.Context, n *node.Node) error {
			if err := n.Enter(c.Context, root); err != nil {
				return err
			}
			return execute(c.Args().Slice())
		},
	}.cli()
}

// execute replaces the process by the command. It looks up the command after the mounts, because
// the node also has programs.
func execute(args []string) error {
	// A new mount may cover the working folder, so the process enters it again.
	if dir, err := os.Getwd(); err == nil {
		if err := os.Chdir(dir); err != nil {
			return fmt.Errorf("return to the working folder: %w", err)
		}
	}
	path, err := exec.LookPath(args[0])
	if err != nil {
		return fmt.Errorf("run %s: %w", args[0], err)
	}
	if err := unix.Exec(path, args, os.Environ()); err != nil {
		return fmt.Errorf("run %s: %w", path, err)
	}
	return nil
}

func mountCommand() *cli.Command {
	var root string
	var all bool
	return command{
		name: "mount", usage: "mount a simulated node in the current mount namespace",
		description: "For a command in \"gpu-sim exec\" that mounts a new /proc or /run, which hides a part of the node. " +
			"Existing mounts stay. The command fails in the machine's own mount namespace, which process 1 has, unless you add --all-programs.",
		flags: []cli.Flag{driverRootFlag(&root), &cli.BoolFlag{
			Name: "all-programs", Destination: &all, EnvVars: []string{"GPU_SIM_ALL_PROGRAMS"},
			Usage: "mount also in the mount namespace of process 1: for a container that is to be the node, such as a node of kind",
		}},
		run: func(c *cli.Context, n *node.Node) error {
			if all {
				return n.MountForAll(c.Context, root)
			}
			return n.Mount(c.Context, root)
		},
	}.cli()
}
