package app

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/urfave/cli/v2"

	"outrigger.dev/sim/internal/node"
	"outrigger.dev/sim/internal/state"
)

func jsonFlag(asJSON *bool) cli.Flag {
	return &cli.BoolFlag{Name: "json", Usage: "print JSON", Destination: asJSON}
}

func showCommand() *cli.Command {
	var asJSON bool
	return command{
		name: "show", usage: "show a simulated node",
		flags: []cli.Flag{jsonFlag(&asJSON)},
		run: func(c *cli.Context, n *node.Node) error {
			if asJSON {
				return printJSON(c.App.Writer, n.State().Show())
			}
			return printNode(c.App.Writer, n)
		},
	}.cli()
}

func printJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

func printNode(w io.Writer, n *node.Node) error {
	snap := n.State().Show()
	driver := "not loaded"
	if snap.Driver.Loaded {
		driver = "loaded"
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "node\t%s\n", n.Root())
	fmt.Fprintf(t, "driver\t%s, %s, CUDA %s\n", snap.Driver.Version, driver, snap.Driver.CUDA)
	fmt.Fprintf(t, "latency\t%s per NVML call\n", snap.Latency)
	fmt.Fprintf(t, "events\t%d\n", snap.Events)
	for _, symbol := range slices.Sorted(maps.Keys(snap.Forced)) {
		fmt.Fprintf(t, "forced\t%s answers %d\n", symbol, snap.Forced[symbol])
	}
	if f := snap.Fault; f != nil {
		fmt.Fprintf(t, "fault\t%s\n", f)
	}
	if err := t.Flush(); err != nil || len(snap.GPUs) == 0 {
		return err
	}
	fmt.Fprint(t, "\nGPU\tMINOR\tMODEL\tUUID\tBUS ID\tNUMA\tNVLINKS\tTEMP\tMIG\tSTATE\n")
	for _, g := range snap.GPUs {
		fmt.Fprintf(t, "%d\t%d\t%s\t%s\t%s\t%d\t%d\t%d °C\t%s\t%s\n",
			g.Index, g.Minor, g.Model, g.UUID, g.BusID, g.NUMANode, g.NVLinks, g.Temperature, division(g), health(g))
	}
	return t.Flush()
}

// division returns the MIG mode of a GPU and the number of its MIG devices.
func division(g state.GPU) string {
	if g.MIG == nil || !g.MIG.Enabled {
		return migMode(g)
	}
	devices := 0
	for _, gi := range g.MIG.GPUInstances {
		devices += len(gi.ComputeInstances)
	}
	return fmt.Sprintf("%s, %d devices", migMode(g), devices)
}

func health(g state.GPU) string {
	switch {
	case g.Lost != "":
		return "lost (" + string(g.Lost) + ")"
	case g.Recovery != "":
		return "needs " + string(g.Recovery)
	case g.RemapPending:
		return "rows to remap"
	case g.Fabric != "" && !strings.HasPrefix(g.Fabric, "completed"):
		return "fabric " + g.Fabric
	default:
		return "ok"
	}
}

func callsCommand() *cli.Command {
	var asJSON, reset bool
	return command{
		name: "calls", usage: "show how often all programs of the node called each NVML and CUDA symbol",
		flags: []cli.Flag{
			&cli.BoolFlag{Name: "reset", Destination: &reset, Usage: "reset all counters after printing"},
			jsonFlag(&asJSON),
		},
		run: func(c *cli.Context, n *node.Node) error {
			calls := n.State().Calls()
			var err error
			if asJSON {
				err = printJSON(c.App.Writer, calls)
			} else {
				err = printCalls(c.App.Writer, calls)
			}
			if err != nil || !reset {
				return err
			}
			return n.State().ResetCalls()
		},
	}.cli()
}

// printCalls prints the number of calls of each symbol, in descending order.
func printCalls(w io.Writer, calls map[string]uint64) error {
	symbols := slices.SortedFunc(maps.Keys(calls), func(a, b string) int {
		return cmp.Or(cmp.Compare(calls[b], calls[a]), cmp.Compare(a, b))
	})
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	var sum uint64
	for _, s := range symbols {
		fmt.Fprintf(t, "%d\t  %s\n", calls[s], s)
		sum += calls[s]
	}
	fmt.Fprintf(t, "%d\t  in all\n", sum)
	return t.Flush()
}

// gpuAt returns the GPU that ref names.
func gpuAt(n *node.Node, ref string) (state.GPU, error) {
	slot, err := n.State().Find(ref)
	if err != nil {
		return state.GPU{}, err
	}
	for _, g := range n.State().Show().GPUs {
		if g.Slot == slot {
			return g, nil
		}
	}
	return state.GPU{}, fmt.Errorf("GPU %q: %w: it was just unplugged", ref, state.ErrNoGPU)
}
