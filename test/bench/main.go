// Command bench measures the agents on a simulated node and prints each result with
// its target. It runs the same binaries that ship.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/urfave/cli/v2"

	"outrigger.dev/pkg/cmdline"
	"outrigger.dev/pkg/text"
	"outrigger.dev/test/bench/internal/containertoolkit"
	"outrigger.dev/test/bench/internal/dcgmexporter"
	"outrigger.dev/test/bench/internal/deviceplugin"
	"outrigger.dev/test/bench/internal/featurediscovery"
	"outrigger.dev/test/bench/internal/gpusim"
	"outrigger.dev/test/bench/internal/migmanager"
	"outrigger.dev/test/bench/internal/orchestrator"
	"outrigger.dev/test/bench/internal/process"
	"outrigger.dev/test/bench/internal/report"
	"outrigger.dev/test/bench/internal/simnode"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	code := cmdline.Exec(ctx, app(), os.Args)
	stop()
	os.Exit(code)
}

func app() *cli.App {
	return &cli.App{
		Name:  "bench",
		Usage: "measure the agents on a simulated node, and the orchestrator on a cluster",
		Flags: append(scaleFlags(), []cli.Flag{
			&cli.PathFlag{
				Name: "bin", EnvVars: []string{"BENCH_BIN"}, DefaultText: "the folder of bench",
				Usage: "`FOLDER` with gpu-sim, gpu-sim-hook, lib/ and the agents: " + strings.Join(append(agents(), gpusim.Name), ", "),
			},
			&cli.StringFlag{
				Name: "agent", EnvVars: []string{"BENCH_AGENT"}, DefaultText: "all",
				Usage: "`NAME` of the only agent to measure: " + text.OneOf(everything()),
			},
			&cli.IntFlag{
				Name: "runs", EnvVars: []string{"BENCH_RUNS"}, Value: 15,
				Usage: "`NUMBER` of runs; the result is their median",
			},
			&cli.PathFlag{
				Name: "results", EnvVars: []string{"BENCH_RESULTS"}, DefaultText: "none",
				Usage: "`FOLDER` for files with the results, from which the command page writes the page",
			},
			&cli.PathFlag{
				Name: "node", EnvVars: []string{"BENCH_NODE"}, Hidden: true,
				Usage: "`FOLDER` of the simulated node that this process runs in",
			},
		}...),
		Action:   benchAll,
		Commands: []*cli.Command{soakCommand(), onceCommand(), pageCommand()},
	}
}

func soakCommand() *cli.Command {
	return &cli.Command{
		Name:  "soak",
		Usage: "run the agents under load for a long time, and fail if one leaks memory, goroutines or files",
		Flags: []cli.Flag{
			&cli.IntFlag{Name: "allocations", EnvVars: []string{"SOAK_ALLOCATIONS"}, Value: 100_000, Usage: "`NUMBER` of allocations of the device plugin"},
			&cli.IntFlag{Name: "events", EnvVars: []string{"SOAK_EVENTS"}, Value: 10_000, Usage: "`NUMBER` of health events of the device plugin"},
			&cli.IntFlag{Name: "changes", EnvVars: []string{"SOAK_CHANGES"}, Value: 5_000, Usage: "`NUMBER` of label changes of feature discovery"},
			&cli.IntFlag{Name: "scrapes", EnvVars: []string{"SOAK_SCRAPES"}, Value: 100_000, Usage: "`NUMBER` of scrapes of the DCGM exporter"},
			&cli.IntFlag{Name: "readings", EnvVars: []string{"SOAK_READINGS"}, Value: 8_640, Usage: "`NUMBER` of readings of each GPU by the DCGM exporter: 24 hours of them"},
			&cli.PathFlag{Name: "out", EnvVars: []string{"SOAK_OUT"}, Value: "out/soak", Usage: "`FOLDER` for logs and memory samples"},
		},
		Action: func(c *cli.Context) error { return inNode(c, soak) },
	}
}

// onceCommand returns the command that bench runs to measure a program from its start
// to its end.
func onceCommand() *cli.Command {
	return &cli.Command{
		Name: process.OnceCommand, Hidden: true, Usage: "run a program to its end and report its time and memory", ArgsUsage: "-- COMMAND…",
		Action: func(c *cli.Context) error {
			return process.RunOnce(c.Context, c.Args().Slice(), os.Stdout, os.Stderr)
		},
	}
}

// gpus is the initial number of GPUs of the simulated node.
const gpus = 8

// agents returns the names of the agents that bench measures in a simulated node.
func agents() []string {
	return []string{deviceplugin.Name, featurediscovery.Name, containertoolkit.Name, dcgmexporter.Name, migmanager.Name}
}

// everything returns the values of --agent.
func everything() []string { return append(agents(), gpusim.Name, orchestrator.Name) }

// chosen returns the agents that the command line selects.
func chosen(c *cli.Context) ([]string, error) {
	only := c.String("agent")
	switch {
	case only == "":
		return agents(), nil
	case slices.Contains(agents(), only):
		return []string{only}, nil
	default:
		return nil, cmdline.Usagef("flag --agent: invalid value %q: must be %s", only, text.OneOf(everything()))
	}
}

// binFolder returns the folder with the binaries.
func binFolder(c *cli.Context) (string, error) {
	if bin := c.Path("bin"); bin != "" {
		return filepath.Abs(bin)
	}
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find the folder of bench: %w", err)
	}
	return filepath.Dir(self), nil
}

// folder returns the folder with the binaries. It fails if a required one is missing.
func folder(c *cli.Context) (string, error) {
	bin, err := binFolder(c)
	if err != nil {
		return "", err
	}
	names, err := chosen(c)
	if err != nil {
		return "", err
	}
	return bin, find(bin, append(names, "gpu-sim")...)
}

// find fails if a program is missing.
func find(bin string, names ...string) error {
	for _, name := range names {
		if _, err := os.Stat(filepath.Join(bin, name)); err != nil {
			return fmt.Errorf("find binary: %w (build it: make build)", err)
		}
	}
	return nil
}

// runner measures one agent, or runs it under load.
type runner interface {
	Run(ctx context.Context) error
}

// each runs one runner for each agent. The function of returns the runner of an agent.
func each(ctx context.Context, names []string, of func(agent string) runner) error {
	for _, name := range names {
		if err := of(name).Run(ctx); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// inNode creates a simulated node, runs this program again in the node, and calls the function do
// there. In the node, the driver has its real paths, for the agents and for this process.
func inNode(c *cli.Context, do func(*cli.Context, *simnode.Node) error) (err error) {
	if n := c.Int("runs"); n < 1 {
		return cmdline.Usagef("flag --runs: invalid value %d: must be at least 1", n)
	}
	bin, err := folder(c)
	if err != nil {
		return err
	}
	if root := c.Path("node"); root != "" {
		node, err := simnode.Open(bin, root)
		if err != nil {
			return err
		}
		return do(c, node)
	}
	if os.Geteuid() != 0 {
		return errors.New("create a simulated node: it needs a mount namespace: run as root")
	}
	node, err := simnode.Create(c.Context, bin, gpus)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, node.Delete(context.WithoutCancel(c.Context))) }()
	return node.RunSelf(c.Context, append([]string{"--bin", bin, "--node", node.Root}, os.Args[1:]...)...)
}

func measure(c *cli.Context, node *simnode.Node) error {
	names, err := chosen(c)
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := process.Settle(c.Context, filepath.Join(node.Bin, name)); err != nil {
			return err
		}
	}
	table := report.New(os.Stdout, os.Stderr)
	err = each(c.Context, names, func(agent string) runner {
		switch agent {
		case deviceplugin.Name:
			return &deviceplugin.Bench{Node: node, Runs: c.Int("runs"), Rest: c.Duration("rest"), Report: table}
		case containertoolkit.Name:
			return &containertoolkit.Bench{Node: node, Runs: c.Int("runs"), Report: table}
		case dcgmexporter.Name:
			return &dcgmexporter.Bench{Node: node, Runs: c.Int("runs"), Rest: c.Duration("rest"), Report: table}
		case migmanager.Name:
			return &migmanager.Bench{Node: node, Runs: c.Int("runs"), Report: table}
		}
		return &featurediscovery.Bench{Node: node, Runs: c.Int("runs"), Rest: c.Duration("rest"), Report: table}
	})
	// Print the results even if a later measurement failed.
	return errors.Join(err, table.Print(), table.Save(c.Path("results"), "agents"))
}

func soak(c *cli.Context, node *simnode.Node) error {
	// Each round needs a share of each number.
	const least = 1000
	for _, flag := range []string{"allocations", "events", "changes", "scrapes", "readings"} {
		if n := c.Int(flag); n < least {
			return cmdline.Usagef("flag --%s: invalid value %d: must be at least %d", flag, n, least)
		}
	}
	names, err := chosen(c)
	if err != nil {
		return err
	}
	dir := c.Path("out")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("create folder for the results: %w", err)
	}
	// The container toolkit and the MIG manager are excluded, because their commands end by
	// themselves.
	names = slices.DeleteFunc(names, func(name string) bool { return name == containertoolkit.Name || name == migmanager.Name })
	return each(c.Context, names, func(agent string) runner {
		switch agent {
		case dcgmexporter.Name:
			return &dcgmexporter.Soak{Node: node, Scrapes: c.Int("scrapes"), Readings: c.Int("readings"), Dir: dir, Out: os.Stdout}
		case deviceplugin.Name:
			return &deviceplugin.Soak{
				Node: node, GPUs: gpus, Allocations: c.Int("allocations"), Events: c.Int("events"), Dir: dir, Out: os.Stdout,
			}
		}
		return &featurediscovery.Soak{Node: node, Changes: c.Int("changes"), Dir: dir, Out: os.Stdout}
	})
}
