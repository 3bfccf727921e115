package kubectl

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/urfave/cli/v2"
	"golang.org/x/sync/errgroup"

	"outrigger.dev/orchestrator/internal/simulate"
	"outrigger.dev/pkg/cmdline"
	"outrigger.dev/pkg/hostfs"
	"outrigger.dev/pkg/scenario"
)

const (
	// maxScenario is the maximum size of a scenario, in bytes.
	maxScenario = 1 << 20
	// playNodes is the number of nodes on which an event for all nodes happens at the same time.
	playNodes = 10
)

// playing has the flags of sim play.
type playing struct {
	*settings

	dry    bool
	repeat int
}

func (s *settings) simPlayCommand() *cli.Command {
	p := &playing{settings: s}
	return &cli.Command{
		Name: "play", ArgsUsage: "FILE", Usage: "play the events of a scenario on one or several nodes",
		Description: "FILE is a list of events in YAML; - is standard input. An event has a time, an action and a GPU. Without a node, it happens on all\n" +
			"nodes with simulated GPUs:\n" +
			"  - {at: 30s, node: node1, gpu: 3, xid: 79}\n" +
			"  - {at: 60s, node: node1, gpu: 3, reset: true}\n" +
			"The actions are xid, lose, heal, load, set, mig, reset, plug and unplug. The scenario ends with the command.",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "dry-run", EnvVars: []string{"OUTRIGGER_DRY_RUN"}, Destination: &p.dry, Usage: "check the file and the nodes, and print the commands"},
			cmdline.Check(&cli.IntFlag{Name: "repeat", EnvVars: []string{"OUTRIGGER_REPEAT"}, Value: 1, Destination: &p.repeat, Usage: "play the scenario `COUNT` times; 0 repeats it until it is interrupted"}, "0 or more", func(n int) bool { return n >= 0 }),
		},
		Action: p.run,
	}
}

func (p *playing) run(c *cli.Context) error {
	if c.NArg() != 1 {
		return cmdline.Usagef("wrong number of arguments; usage: kubectl outrigger sim play FILE")
	}
	file := c.Args().First()
	data, err := hostfs.ReadInput(file, c.App.Reader, maxScenario)
	if err != nil {
		return err
	}
	steps, err := scenario.Parse(file, data, scenario.Known{}) // gpu-sim on the node has the names
	if err != nil {
		fmt.Fprintln(c.App.ErrWriter, err)
		return cli.Exit("", 1)
	}
	client, err := p.open()
	if err != nil {
		return err
	}
	nodes, err := simulate.Open(c.Context, client, "")
	if err != nil {
		return err
	}
	if err := checkNodes(c.Context, nodes, steps); err != nil {
		return err
	}
	if p.dry {
		for _, s := range steps {
			fmt.Fprintln(c.App.Writer, s)
		}
		return nil
	}
	err = scenario.Play(c.Context, steps, p.repeat, func(ctx context.Context, s scenario.Step) error { return playStep(ctx, c, nodes, s) })
	if errors.Is(err, context.Canceled) && c.Context.Err() != nil {
		return fmt.Errorf("play %s: interrupted: the events until now stay", file)
	}
	if err != nil {
		return fmt.Errorf("play %s: %w", file, err)
	}
	return nil
}

// checkNodes checks all nodes of a scenario.
func checkNodes(ctx context.Context, nodes *simulate.Nodes, steps []scenario.Step) error {
	names, all := scenario.Nodes(steps)
	if all && len(nodes.Names()) == 0 {
		return errors.New("no node has simulated GPUs: install the chart gpu-sim, and label nodes with outrigger.dev/simulated-gpus")
	}
	if all {
		names = append(names, nodes.Names()...)
	}
	slices.Sort(names)
	var errs []error
	for _, node := range slices.Compact(names) {
		errs = append(errs, nodes.Check(ctx, node))
	}
	return errors.Join(errs...)
}

// playStep runs the commands of an event on its nodes, and prints their output with the time and the node.
func playStep(ctx context.Context, c *cli.Context, nodes *simulate.Nodes, s scenario.Step) error {
	on := []string{s.Node}
	if s.Node == "" {
		on = nodes.Names()
	}
	var mu sync.Mutex
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(playNodes)
	for _, node := range on {
		g.Go(func() error {
			for _, words := range s.Commands {
				output, err := nodes.Run(ctx, node, words...)
				if err != nil {
					return err
				}
				mu.Lock()
				for line := range strings.Lines(output) {
					fmt.Fprintf(c.App.Writer, "%6s  %s: %s", s.At, node, line)
				}
				mu.Unlock()
			}
			return nil
		})
	}
	return g.Wait()
}
