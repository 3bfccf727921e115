package app

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"outrigger.dev/pkg/cmdline"
	"outrigger.dev/pkg/hostfs"
	"outrigger.dev/pkg/scenario"
	"outrigger.dev/sim/internal/model"
	"outrigger.dev/sim/internal/node"
	"outrigger.dev/sim/internal/state"
)

// maxScenario is the maximum size of a scenario, in bytes.
const maxScenario = 1 << 20

func playCommand() *cli.Command {
	var p player
	return command{
		name: "play", args: "FILE", usage: "play the events of a scenario at their times", min: 1, max: 1,
		description: "FILE is a list of events in YAML; - is standard input. An event has a time, a GPU and an action:\n" +
			"  - {at: 30s, gpu: 3, xid: 79}\n" +
			"  - {at: 60s, gpu: 3, reset: true}\n" +
			"  - {at: 60s, gpu: 0, load: {utilization: 60-90, memory: 20Gi}}\n" +
			"The actions are xid, lose, heal, load, set, mig, reset, plug and unplug. The key node limits an event to a node.\n" +
			"\"kubectl outrigger sim play\" plays a scenario on several nodes.",
		flags: []cli.Flag{
			&cli.BoolFlag{Name: "dry-run", Destination: &p.dry, Usage: "print the commands of each event, and run none"},
			cmdline.Check(&cli.IntFlag{Name: "repeat", Value: 1, Destination: &p.repeat, Usage: "play the scenario `COUNT` times; 0 repeats it until it is interrupted"}, "0 or more", func(n int) bool { return n >= 0 }),
			&cli.StringFlag{Name: "node", EnvVars: []string{"NODE_NAME"}, Destination: &p.node, Usage: "`NAME` of this node; events for other nodes are left out"},
		},
		run: func(c *cli.Context, n *node.Node) error {
			steps, err := p.read(c)
			if err != nil {
				return err
			}
			if p.dry {
				return printSteps(c, steps)
			}
			err = scenario.Play(c.Context, steps, p.repeat, func(ctx context.Context, s scenario.Step) error { return playStep(ctx, c, n.Root(), s) })
			if err != nil {
				return fmt.Errorf("play %s: %w", c.Args().First(), err)
			}
			return nil
		},
	}.cli()
}

// player has the flags of play.
type player struct {
	dry    bool
	repeat int
	node   string
}

// read returns the events for this node. It prints the mistakes of a file one per line.
func (p player) read(c *cli.Context) ([]scenario.Step, error) {
	file := c.Args().First()
	data, err := hostfs.ReadInput(file, c.App.Reader, maxScenario)
	if err != nil {
		return nil, fmt.Errorf("play: %w", err)
	}
	steps, err := scenario.Parse(file, data, scenario.Known{Fields: state.Fields(), Models: model.Names()})
	if err != nil {
		_, _ = fmt.Fprintln(c.App.ErrWriter, err)
		return nil, cli.Exit("", 1)
	}
	if names, _ := scenario.Nodes(steps); p.node == "" && len(names) > 1 {
		return nil, fmt.Errorf("play: %s has events for the nodes %s: choose one with --node", file, strings.Join(names, ", "))
	}
	var own []scenario.Step
	for _, s := range steps {
		if s.Node == "" || p.node == "" || s.Node == p.node {
			own = append(own, s)
		}
	}
	if len(own) == 0 {
		return nil, fmt.Errorf("play: %s has no event for the node %s: correct --node or the file", file, p.node)
	}
	return own, nil
}

func printSteps(c *cli.Context, steps []scenario.Step) error {
	for _, s := range steps {
		if _, err := fmt.Fprintln(c.App.Writer, s); err != nil {
			return err
		}
	}
	return nil
}

// playStep runs the commands of an event, and prints their output with the time of the event.
func playStep(ctx context.Context, c *cli.Context, root string, s scenario.Step) error {
	for _, words := range s.Commands {
		var out bytes.Buffer
		app := newApp(&out, c.App.ErrWriter)
		// The flag follows the name of the command, which has two words if the first one is a group.
		at := 1
		if cmd := app.Command(words[0]); cmd != nil && len(cmd.Subcommands) > 0 {
			at = 2
		}
		args := append([]string{c.App.Name}, words[:at]...)
		args = append(append(args, "--root", root), words[at:]...)
		if err := cmdline.Run(ctx, app, args); err != nil {
			return err
		}
		if _, err := fmt.Fprintf(c.App.Writer, "%6s  %s", s.At, out.String()); err != nil {
			return err
		}
	}
	return nil
}
