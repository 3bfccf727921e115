// Bench measures the agents on a simulated node and prints each figure beside
// its target. The binaries that it runs are those that ship.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/urfave/cli/v2"

	"outrigger.dev/test/bench/internal/deviceplugin"
	"outrigger.dev/test/bench/internal/report"
	"outrigger.dev/test/bench/internal/simnode"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	err := app().RunContext(ctx, os.Args)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func app() *cli.App {
	return &cli.App{
		Name:            "bench",
		Usage:           "measure the agents on a simulated node",
		HideHelpCommand: true,
		Flags: []cli.Flag{
			&cli.PathFlag{
				Name: "bin", EnvVars: []string{"BENCH_BIN"}, DefaultText: "the folder of bench",
				Usage: "`FOLDER` with device-plugin, gpu-sim and lib/",
			},
			&cli.IntFlag{
				Name: "runs", EnvVars: []string{"BENCH_RUNS"}, Value: 15,
				Usage: "`NUMBER` of runs, of which the median is shown",
			},
			&cli.PathFlag{
				Name: "node", EnvVars: []string{"BENCH_NODE"}, Hidden: true,
				Usage: "`FOLDER` of the simulated node that this process runs in",
			},
		},
		Action:         run,
		ExitErrHandler: func(*cli.Context, error) {},
	}
}

// run makes a simulated node and runs itself in it: there the driver is at the
// real paths, for the agents and for what is measured in this process.
func run(c *cli.Context) error {
	if n := c.Int("runs"); n < 1 {
		return fmt.Errorf("read flag --runs: %d: must be at least 1", n)
	}
	bin := c.Path("bin")
	if bin == "" {
		self, err := os.Executable()
		if err != nil {
			return fmt.Errorf("find the folder of bench: %w", err)
		}
		bin = filepath.Dir(self)
	}
	if root := c.Path("node"); root != "" {
		return measure(c, simnode.Open(bin, root))
	}
	return inNode(c.Context, bin, c.Int("runs"))
}

func inNode(ctx context.Context, bin string, runs int) (err error) {
	if os.Geteuid() != 0 {
		return errors.New("make a simulated node: it needs a mount namespace: run as root")
	}
	node, err := simnode.Create(ctx, bin, 8)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, node.Delete(context.WithoutCancel(ctx))) }()
	return node.RunSelf(ctx, "--bin", bin, "--runs", fmt.Sprint(runs), "--node", node.Root)
}

func measure(c *cli.Context, node *simnode.Node) error {
	table := report.New(os.Stdout, os.Stderr)
	b := deviceplugin.Bench{Node: node, Runs: c.Int("runs"), Report: table}
	// What was measured before a mistake is shown all the same.
	return errors.Join(b.Run(c.Context), table.Print())
}
