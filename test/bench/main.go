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
		Action:         func(c *cli.Context) error { return inNode(c, measure) },
		Commands:       []*cli.Command{soakCommand(), blankCommand()},
		ExitErrHandler: func(*cli.Context, error) {},
	}
}

func soakCommand() *cli.Command {
	return &cli.Command{
		Name:  "soak",
		Usage: "let the device plugin work for long, and fail if it leaves memory, goroutines or files behind",
		Flags: []cli.Flag{
			&cli.IntFlag{Name: "allocations", EnvVars: []string{"SOAK_ALLOCATIONS"}, Value: 100_000, Usage: "`NUMBER` of allocations"},
			&cli.IntFlag{Name: "events", EnvVars: []string{"SOAK_EVENTS"}, Value: 10_000, Usage: "`NUMBER` of health events"},
			&cli.PathFlag{Name: "out", EnvVars: []string{"SOAK_OUT"}, Value: "out/soak", Usage: "`FOLDER` for the log and the samples of memory"},
		},
		Action: func(c *cli.Context) error { return inNode(c, soak) },
	}
}

// blankCommand is what bench runs to measure the transport alone.
func blankCommand() *cli.Command {
	return &cli.Command{
		Name: "blank", Hidden: true, Usage: "serve a device plugin that does nothing",
		Flags: []cli.Flag{
			&cli.PathFlag{Name: "kubelet-socket", Required: true, Usage: "`SOCKET` of the kubelet"},
			&cli.IntFlag{Name: "devices", Required: true, Usage: "`NUMBER` of devices"},
			&cli.IntFlag{Name: "unhealthy", Required: true, Usage: "`NUMBER` of those that are unhealthy in each second list"},
		},
		Action: func(c *cli.Context) error {
			b, err := deviceplugin.NewBlank(c.Path("kubelet-socket"), c.Int("devices"), c.Int("unhealthy"))
			if err != nil {
				return err
			}
			return b.Run(c.Context)
		},
	}
}

// gpus is how many GPUs the simulated node has at first.
const gpus = 8

// inNode makes a simulated node and runs this program again in it, where it
// does what do says: there the driver is at the real paths, for the agents and
// for what is measured in this process.
func inNode(c *cli.Context, do func(*cli.Context, *simnode.Node) error) (err error) {
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
		node, err := simnode.Open(bin, root)
		if err != nil {
			return err
		}
		return do(c, node)
	}
	if os.Geteuid() != 0 {
		return errors.New("make a simulated node: it needs a mount namespace: run as root")
	}
	node, err := simnode.Create(c.Context, bin, gpus)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, node.Delete(context.WithoutCancel(c.Context))) }()
	return node.RunSelf(c.Context, append([]string{"--bin", bin, "--node", node.Root}, os.Args[1:]...)...)
}

func measure(c *cli.Context, node *simnode.Node) error {
	table := report.New(os.Stdout, os.Stderr)
	b := deviceplugin.Bench{Node: node, Runs: c.Int("runs"), Report: table}
	// What was measured before a mistake is shown all the same.
	return errors.Join(b.Run(c.Context), table.Print())
}

func soak(c *cli.Context, node *simnode.Node) error {
	// The least that each round does something of.
	const least = 1000
	if c.Int("allocations") < least || c.Int("events") < least {
		return fmt.Errorf("read flags: --allocations %d, --events %d: each must be at least %d", c.Int("allocations"), c.Int("events"), least)
	}
	if err := os.MkdirAll(c.Path("out"), 0o755); err != nil {
		return fmt.Errorf("make folder for the results: %w", err)
	}
	s := deviceplugin.Soak{
		Node: node, GPUs: gpus, Allocations: c.Int("allocations"), Events: c.Int("events"), Dir: c.Path("out"), Out: os.Stdout,
	}
	return s.Run(c.Context)
}
