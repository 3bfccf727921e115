package app

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v2"

	"outrigger.dev/sim/internal/node"
	"outrigger.dev/sim/internal/state"
)

// defaultReset is how long a reset takes. During the reset, the GPU is lost, long enough for
// programs to observe it.
const defaultReset = 200 * time.Millisecond

// firstMadeUp is the first invented PID. It is larger than any PID of Linux.
const firstMadeUp = 1<<22 + 1

func procCommand() *cli.Command {
	return &cli.Command{
		Name: "proc", Usage: "simulate processes that use a GPU",
		Subcommands: []*cli.Command{procAddCommand(), procSetCommand(), procEndCommand(), procListCommand()},
	}
}

func procAddCommand() *cli.Command {
	var pid uint
	var instance string
	var memory uint64
	cmd := command{
		parent: "proc", name: "add", args: "GPU", usage: "add a process to a GPU", min: 1,
		flags: append(useFlags(),
			&cli.UintFlag{Name: "pid", Destination: &pid, Usage: "`PID` of a running process, which uses the GPU until it exits (default: an invented PID)"},
			&cli.StringFlag{Name: "instance", Destination: &instance, Usage: "`GI/CI` that the process uses, as \"gpu-sim mig list\" prints them (default: the whole GPU)"},
			&cli.Uint64Flag{Name: "memory", Destination: &memory, Usage: "memory that the process uses, in `MIB`"},
		),
	}
	return gpuCommand(cmd, func(c *cli.Context, n *node.Node, g state.GPU) error {
		const mib = 1 << 20
		p := state.Process{GPUInstance: state.WholeGPU, ComputeInstance: state.WholeGPU, MemoryBytes: memory * mib, Use: useOf(c, state.Use{})}
		if instance != "" {
			var err error
			if p.GPUInstance, p.ComputeInstance, err = parseInstance(instance); err != nil {
				return err
			}
			if p.ComputeInstance == state.WholeGPU {
				return fmt.Errorf("proc add: instance %q: want GI/CI: a process uses a compute instance", instance)
			}
		}
		var err error
		if p.PID = int(pid); c.IsSet("pid") {
			err = n.State().AttachProcess(g.Slot, p)
		} else {
			p.PID = unusedPID(g)
			err = n.State().PutProcess(g.Slot, p)
		}
		if err != nil {
			return fmt.Errorf("proc add: %w", err)
		}
		return printGPU(c, fmt.Sprintf("process %d uses", p.PID), g)
	})
}

// useFlags returns the flags for the use of a GPU by a process.
func useFlags() []cli.Flag {
	var flags []cli.Flag
	for _, f := range [][2]string{
		{"sm", "SMs"}, {"memory-util", "time of the memory"}, {"encoder", "encoders"}, {"decoder", "decoders"}, {"jpeg", "JPEG engines"}, {"ofa", "OFA engines"},
	} {
		flags = append(flags, &cli.UintFlag{Name: f[0], Usage: "`PERCENT` of the " + f[1] + " that the process uses"})
	}
	return flags
}

// useOf returns use with the values of the flags that are set.
func useOf(c *cli.Context, use state.Use) state.Use {
	for name, at := range map[string]*uint32{
		"sm": &use.SM, "memory-util": &use.Memory, "encoder": &use.Encoder, "decoder": &use.Decoder, "jpeg": &use.JPEG, "ofa": &use.OFA,
	} {
		if c.IsSet(name) {
			*at = uint32(min(c.Uint(name), math.MaxUint32)) //nolint:gosec // min
		}
	}
	return use
}

func procSetCommand() *cli.Command {
	cmd := command{parent: "proc", name: "set", args: "GPU PID", usage: "change how much of a GPU a process uses", min: 2, flags: useFlags()}
	return gpuCommand(cmd, func(c *cli.Context, n *node.Node, g state.GPU) error {
		pid, err := parsePID(c.Args().Get(1))
		if err != nil {
			return fmt.Errorf("proc set: %w", err)
		}
		var use state.Use
		if i := slices.IndexFunc(g.Processes, func(p state.Process) bool { return p.PID == pid }); i >= 0 {
			use = g.Processes[i].Use
		}
		if err := n.State().UseProcess(g.Slot, pid, useOf(c, use)); err != nil {
			return fmt.Errorf("proc set: %w", err)
		}
		return printGPU(c, fmt.Sprintf("process %d has changed on", pid), g)
	})
}

func parsePID(text string) (int, error) {
	pid, err := strconv.ParseUint(text, 10, 31)
	if err != nil || pid == 0 {
		return 0, fmt.Errorf("PID %q: want a number that \"gpu-sim proc list\" prints", text)
	}
	return int(pid), nil
}

func unusedPID(g state.GPU) int {
	pid := firstMadeUp
	for _, p := range g.Processes {
		pid = max(pid, p.PID+1)
	}
	return pid
}

func procEndCommand() *cli.Command {
	cmd := command{parent: "proc", name: "end", args: "GPU PID", usage: "remove a process from a GPU", min: 2}
	return gpuCommand(cmd, func(c *cli.Context, n *node.Node, g state.GPU) error {
		pid, err := parsePID(c.Args().Get(1))
		if err != nil {
			return fmt.Errorf("proc end: %w", err)
		}
		if err := n.State().DropProcess(g.Slot, pid); err != nil {
			return fmt.Errorf("proc end: %w", err)
		}
		return printGPU(c, fmt.Sprintf("process %d has left", pid), g)
	})
}

func procListCommand() *cli.Command {
	var asJSON bool
	return command{
		parent: "proc", name: "list", args: "[GPU]", usage: "list the processes on GPUs", max: 1, description: gpuHelp,
		flags: []cli.Flag{jsonFlag(&asJSON)},
		run: func(c *cli.Context, n *node.Node) error {
			gpus := n.State().Show().GPUs
			if ref := c.Args().First(); ref != "" {
				g, err := gpuAt(n, ref)
				if err != nil {
					return fmt.Errorf("proc list: %w", err)
				}
				gpus = []state.GPU{g}
			}
			return printProcesses(c.App.Writer, gpus, asJSON)
		},
	}.cli()
}

// processOn is a process in the output of "proc list".
type processOn struct {
	GPU int `json:"gpu"`
	state.Process
}

func printProcesses(w io.Writer, gpus []state.GPU, asJSON bool) error {
	list := []processOn{}
	for _, g := range gpus {
		for _, p := range g.Processes {
			list = append(list, processOn{g.Index, p})
		}
	}
	if asJSON {
		return printJSON(w, list)
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprint(t, "GPU\tPID\tINSTANCE\tMEMORY\tSM\n")
	for _, p := range list {
		instance := "-"
		if p.GPUInstance != state.WholeGPU {
			instance = fmt.Sprintf("%d/%d", p.GPUInstance, p.ComputeInstance)
		}
		fmt.Fprintf(t, "%d\t%d\t%s\t%d MiB\t%d %%\n", p.GPU, p.PID, instance, p.MemoryBytes>>20, p.Use.SM)
	}
	return t.Flush()
}
