package app

import (
	"fmt"
	"os"
	"os/exec"

	"github.com/urfave/cli/v2"
	"golang.org/x/sys/unix"

	"outrigger.dev/sim/internal/node"
)

func driverRootFlag() cli.Flag {
	return &cli.StringFlag{
		Name: "driver-root", Value: node.HostRoot, EnvVars: []string{"GPU_SIM_DRIVER_ROOT"},
		Usage: "`PATH` of the driver: / as if installed on the machine, /run/nvidia/driver as if a container brings it when it is loaded",
	}
}

func execCommand() *cli.Command {
	return command{
		name: "exec", args: "-- COMMAND [ARGUMENT…]", usage: "run a command in a simulated node",
		description: "The command runs in a mount namespace of its own, in place of gpu-sim: signals and exit code are its own.",
		flags:       []cli.Flag{driverRootFlag()},
		min:         1, max: -1,
		run: func(c *cli.Context, n *node.Node) error {
			if err := n.Enter(c.Context, c.String("driver-root")); err != nil {
				return err
			}
			return execute(c.Args().Slice())
		},
	}.cli()
}

// execute becomes the command. It is looked up only now, since the node has
// programs too.
func execute(args []string) error {
	// The working folder may lie below a mount made just now.
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
	return command{
		name: "mount", usage: "show a simulated node in the present mount namespace",
		description: "For a command below \"gpu-sim exec\" that mounts /proc or /run anew and so hides a part of the node. " +
			"What is in place stays. The machine's own mount namespace is refused.",
		flags: []cli.Flag{driverRootFlag()},
		run: func(c *cli.Context, n *node.Node) error {
			return n.Mount(c.Context, c.String("driver-root"))
		},
	}.cli()
}
