// Package app is the command line of gpu-sim.
package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v2"

	"outrigger.dev/pkg/cmdline"
	"outrigger.dev/sim/internal/mps"
	"outrigger.dev/sim/internal/node"
	"outrigger.dev/sim/internal/smi"
	"outrigger.dev/sim/internal/state"
)

// DefaultRoot is the folder of the node if --root is not set.
const DefaultRoot = "/run/gpu-sim/node"

// Main runs the command line args and returns its exit code. args[0] is the name of the program to
// run: gpu-sim, or a program of the driver.
func Main(args []string, stdout, stderr io.Writer) int {
	name := filepath.Base(args[0])
	if mps.IsProgram(name) {
		if err := mps.Run(name, args[1:], os.Stdin, stdout); err != nil {
			_, _ = fmt.Fprintln(stderr, err) // scripts compare NVIDIA's texts
			return 1
		}
		return 0
	}
	if smi.IsProgram(name) {
		if err := smi.Run(name, args[1:], stdout); err != nil {
			_, _ = fmt.Fprintln(stderr, "gpu-sim:", err)
			return 1
		}
		return 0
	}
	return cmdline.Exec(context.Background(), newApp(stdout, stderr), args)
}

func newApp(stdout, stderr io.Writer) *cli.App {
	return &cli.App{
		Name:  "gpu-sim",
		Usage: "simulate a node with NVIDIA GPUs",
		Description: cmdline.Describe("",
			cmdline.Example{Purpose: "Create a node with two GPUs", Line: "gpu-sim create --gpus 2 --model h100-80"},
			cmdline.Example{Purpose: "Run a program in the node", Line: "gpu-sim exec -- nvidia-smi -L"},
			cmdline.Example{Purpose: "Set the temperature of GPU 0, in degrees Celsius", Line: "gpu-sim set 0.temperature=84"},
			cmdline.Example{Purpose: "Partition GPU 1 into MIG devices", Line: "gpu-sim mig mode 1 on && gpu-sim mig create 1 3g.40gb 3g.40gb"},
			cmdline.Example{Purpose: "Raise XID 79 on GPU 0", Line: "gpu-sim xid 0 79"},
			cmdline.Example{Purpose: "Remove the node", Line: "gpu-sim delete"},
		),
		Writer: stdout, ErrWriter: stderr,
		Commands: []*cli.Command{
			modelsCommand(), createCommand(), deleteCommand(), showCommand(),
			setCommand(), xidCommand(), loseCommand(), healCommand(), plugCommand(), unplugCommand(),
			migCommand(), procCommand(), resetCommand(), rebootCommand(),
			loadCommand(), playCommand(),
			callsCommand(), batchCommand(), execCommand(), mountCommand(), kernelCommand(), imageCommand(),
		},
	}
}

func rootFlag(root *string) cli.Flag {
	return &cli.StringFlag{Name: "root", Usage: "`FOLDER` of the simulated node", Value: DefaultRoot, EnvVars: []string{"GPU_SIM_ROOT"}, Destination: root}
}

// command describes a command for an existing node.
type command struct {
	name, args, usage, description string
	// parent is the name of the parent command, or empty.
	parent string
	flags  []cli.Flag
	// min and max limit the number of arguments. A max of -1 means no limit.
	min, max int
	run      func(c *cli.Context, n *node.Node) error
}

// fullName returns the name, with the name of the parent command.
func (cmd command) fullName() string { return strings.TrimSpace(cmd.parent + " " + cmd.name) }

func (cmd command) cli() *cli.Command {
	var root string
	return &cli.Command{
		Name: cmd.name, ArgsUsage: cmd.args, Usage: cmd.usage, Description: cmd.description,
		Flags: append([]cli.Flag{rootFlag(&root)}, cmd.flags...),
		Action: func(c *cli.Context) error {
			if n := c.NArg(); n < cmd.min || cmd.max >= 0 && n > cmd.max {
				return fmt.Errorf("%s: wrong number of arguments; usage: gpu-sim %s [options] %s", cmd.fullName(), cmd.fullName(), cmd.args)
			}
			n, err := node.Open(root, node.Machine())
			if err != nil {
				return err
			}
			if err := errors.Join(cmd.run(c, n), n.Close()); err != nil {
				return rootError{err, root}
			}
			return nil
		},
	}
}

// printGPU prints a GPU after a change.
func printGPU(c *cli.Context, what string, g state.GPU) error {
	_, err := fmt.Fprintf(c.App.Writer, "%s GPU %d: %s, %s, %s, /dev/nvidia%d\n", what, g.Index, g.Name, g.UUID, g.BusID, g.Minor)
	return err
}
