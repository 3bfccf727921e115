package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"outrigger.dev/pkg/cmdline"
	"outrigger.dev/test/bench/internal/gpusim"
	"outrigger.dev/test/bench/internal/orchestrator"
	"outrigger.dev/test/bench/internal/process"
	"outrigger.dev/test/bench/internal/report"
)

// scaleFlags returns the flags of the orchestrator's figures.
func scaleFlags() []cli.Flag {
	return []cli.Flag{
		&cli.IntSliceFlag{
			Name: "nodes", EnvVars: []string{"BENCH_NODES"}, Value: cli.NewIntSlice(10, 1000),
			Usage: "`NUMBER` of nodes of the orchestrator's cluster, which kwok plays; 5000 takes about half an hour",
		},
		&cli.IntFlag{
			Name: "never-ready", EnvVars: []string{"BENCH_NEVER_READY"}, Value: -1, DefaultText: "a tenth of 5000 nodes or more",
			Usage: "`NUMBER` of these nodes on which no pod gets ready",
		},
		&cli.DurationFlag{
			Name: "rest", EnvVars: []string{"BENCH_REST"}, Value: time.Minute,
			Usage: "`DURATION` for which each program is watched at rest; the figures are for a minute",
		},
		&cli.DurationFlag{
			Name: "limit", EnvVars: []string{"BENCH_LIMIT"}, Value: 40 * time.Minute,
			Usage: "`DURATION` within which the orchestrator has to roll out all",
		},
		&cli.StringFlag{
			Name: "program", EnvVars: []string{"BENCH_PROGRAM"}, DefaultText: "BIN/orchestrator --kubeconfig " + orchestrator.Kubeconfig + " run, with a ClusterPolicy",
			Usage: "command `LINE`, split at spaces, of the program to measure in the orchestrator's place",
		},
		&cli.PathFlag{
			Name: "manifest", EnvVars: []string{"BENCH_MANIFEST"},
			Usage: "`FILE` to apply once that program runs",
		},
	}
}

// benchAll measures the agents in a simulated node, the agent that simulates GPUs on a machine without them, and the
// orchestrator on a cluster. If the command line selects one of them, it measures only that one.
func benchAll(c *cli.Context) error {
	if c.Duration("rest") <= 0 {
		return cmdline.Usagef("flag --rest: invalid value %s: must be more than 0", c.Duration("rest"))
	}
	only := c.String("agent")
	if only != orchestrator.Name && only != gpusim.Name {
		if err := inNode(c, measure); err != nil {
			return err
		}
	}
	// In the node, this process measures only the agents.
	if c.Path("node") != "" {
		return nil
	}
	if only == "" || only == gpusim.Name {
		if err := measureSimulator(c); err != nil {
			return err
		}
	}
	if only == "" || only == orchestrator.Name {
		return measureScale(c)
	}
	return nil
}

// measureSimulator measures the agent that simulates GPUs.
func measureSimulator(c *cli.Context) error {
	if os.Geteuid() != 0 {
		return errors.New("start a machine without GPUs: it needs a mount namespace: run as root")
	}
	if n := c.Int("runs"); n < 1 {
		return cmdline.Usagef("flag --runs: invalid value %d: must be at least 1", n)
	}
	bin, err := binFolder(c)
	if err != nil {
		return err
	}
	if err := find(bin, gpusim.Name, "gpu-sim", "gpu-sim-hook"); err != nil {
		return err
	}
	if err := process.Settle(c.Context, filepath.Join(bin, gpusim.Name)); err != nil {
		return err
	}
	table := report.New(os.Stdout, os.Stderr)
	bench := gpusim.Bench{Bin: bin, Runs: c.Int("runs"), Rest: c.Duration("rest"), Report: table}
	if err = bench.Run(c.Context); err != nil {
		err = fmt.Errorf("%s: %w", gpusim.Name, err)
	}
	// Print the results even if a later measurement failed.
	return errors.Join(err, table.Print(), table.Save(c.Path("results"), gpusim.Name))
}

// measureScale measures the orchestrator on each number of nodes.
func measureScale(c *cli.Context) (err error) {
	if os.Geteuid() != 0 {
		return errors.New("start a cluster: it needs namespaces: run as root")
	}
	bin, err := binFolder(c)
	if err != nil {
		return err
	}
	table := report.New(os.Stdout, os.Stderr)
	// Print the results even if a later measurement failed.
	defer func() { err = errors.Join(err, table.Print(), table.Save(c.Path("results"), orchestrator.Name)) }()
	line, manifest := strings.Fields(c.String("program")), ""
	var before []string
	if len(line) == 0 {
		own := []string{filepath.Join(bin, orchestrator.Name), "--kubeconfig", orchestrator.Kubeconfig}
		line, before, manifest = append(slices.Clone(own), "run"), append(own, "apply-crd"), orchestrator.Policy
	}
	if path := c.Path("manifest"); path != "" {
		text, err := os.ReadFile(path)
		if err != nil {
			return fmt.Errorf("read manifest: %w", err)
		}
		manifest = string(text)
	}
	if _, err := exec.LookPath(line[0]); err != nil {
		return fmt.Errorf("find program: %w (build it: make build)", err)
	}
	for _, nodes := range c.IntSlice("nodes") {
		neverReady := c.Int("never-ready")
		if neverReady < 0 {
			neverReady = 0
			if nodes >= 5000 {
				neverReady = nodes / 10
			}
		}
		bench := orchestrator.Bench{Report: table, Config: orchestrator.Config{
			Bin: bin, Before: before, Line: line, Manifest: manifest, Nodes: nodes, NeverReady: neverReady,
			Rest: c.Duration("rest"), Limit: c.Duration("limit"), Progress: os.Stderr,
		}}
		if err := bench.Run(c.Context); err != nil {
			return fmt.Errorf("orchestrator, %d nodes: %w", nodes, err)
		}
	}
	return nil
}
