package app

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v2"

	"outrigger.dev/pkg/scenario"
	"outrigger.dev/sim/internal/load"
	"outrigger.dev/sim/internal/node"
)

func loadCommand() *cli.Command {
	var memory string
	return command{
		name: "load", args: "[GPU [UTILIZATION|off]]", usage: "make a GPU or MIG device show a load, or list all loads", max: 2,
		description: gpuHelp + " It can also be the UUID of a MIG device.\n" +
			"UTILIZATION is a percentage (75), or a range (60-90) in which the value varies while gpu-sim-node runs.\n" +
			"Power, temperature, clocks and the activity of the engines follow from it.\n" +
			"The load adds to the loads of pods. After \"off\", the GPU has the values from before the load.",
		flags: []cli.Flag{&cli.StringFlag{Name: "memory", Destination: &memory, Usage: "used memory as a `QUANTITY`, such as 20Gi"}},
		run: func(c *cli.Context, n *node.Node) error {
			switch c.NArg() {
			case 0:
				return printLoads(c.App.Writer, n)
			case 1:
				return fmt.Errorf("load: no utilization; usage: gpu-sim load [options] GPU UTILIZATION|off")
			}
			device, err := deviceAt(n, c.Args().First())
			if err != nil {
				return fmt.Errorf("load: %w", err)
			}
			l := load.Load{Device: device}
			text := c.Args().Get(1)
			if memory != "" && strings.HasPrefix(device, "MIG-") {
				return errors.New("load: flag --memory: the memory of a MIG device belongs to processes: use \"gpu-sim proc add --memory\"")
			}
			if text != "off" {
				if l.Use, err = parseUse(text, memory); err != nil {
					return fmt.Errorf("load: %w", err)
				}
			}
			err = load.Apply(n.Root(), time.Now(), func(all []load.Load) []load.Load {
				all = slices.DeleteFunc(all, func(l load.Load) bool { return l.Owner == "" && l.Device == device })
				if text == "off" {
					return all
				}
				return append(all, l)
			})
			if err == nil {
				_, err = fmt.Fprintf(c.App.Writer, "load of %s: %s\n", device, describeUse(text, memory))
			}
			return err
		},
	}.cli()
}

func parseUse(utilization, memory string) (use load.Use, err error) {
	if use.Utilization, err = scenario.ParseRange(utilization, scenario.Percent); err != nil {
		return use, fmt.Errorf("utilization: %w, or off", err)
	}
	if memory == "" {
		return use, nil
	}
	if use.Memory, err = scenario.ParseMemory(memory); err != nil {
		return use, fmt.Errorf("flag --memory: %w", err)
	}
	return use, nil
}

func describeUse(utilization, memory string) string {
	if utilization == "off" {
		return "off"
	}
	if memory != "" {
		return utilization + " %, memory " + memory
	}
	return utilization + " %"
}

// deviceAt returns the UUID of a GPU or MIG device.
func deviceAt(n *node.Node, ref string) (string, error) {
	g, err := gpuAt(n, ref)
	if err == nil || !strings.HasPrefix(ref, "MIG-") {
		return g.UUID, err
	}
	for _, g := range n.State().Show().GPUs {
		if g.MIG == nil {
			continue
		}
		for _, gi := range g.MIG.GPUInstances {
			for _, ci := range gi.ComputeInstances {
				if ci.UUID == ref {
					return ref, nil
				}
			}
		}
	}
	return "", fmt.Errorf("MIG device %q: no such device; see \"gpu-sim mig list\"", ref)
}

func printLoads(w io.Writer, n *node.Node) error {
	loads, err := load.Loads(n.Root())
	if err != nil {
		return err
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprint(t, "DEVICE\tOWNER\tUTILIZATION\tMEMORY\n")
	for _, l := range loads {
		fmt.Fprintf(t, "%s\t%s\t%s %%\t%d MiB\n", l.Device, cmp.Or(l.Owner, "-"), l.Utilization, l.Memory>>20)
	}
	return t.Flush()
}
