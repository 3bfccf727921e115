package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"

	"github.com/urfave/cli/v2"

	"outrigger.dev/agents/mig-manager/internal/apply"
	"outrigger.dev/agents/mig-manager/internal/boards"
	"outrigger.dev/agents/mig-manager/internal/migconfig"
	"outrigger.dev/pkg/cmdline"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/mig"
)

func (s *settings) planCommand() *cli.Command {
	o := &command{settings: s}
	flags := append(o.configFlags("config to plan; optional if the file has only one config"),
		o.modeFlag("plan only the change of the MIG mode"),
		&cli.PathFlag{
			Name: "snapshot", EnvVars: []string{"MIG_PARTED_SNAPSHOT"}, Destination: &o.snapshot,
			Usage: "`FILE` with the output of the command snapshot, to plan for its GPUs; - for standard input",
		},
		o.boardFlag("`NAME` of a board: plan for an empty GPU of this board, also on a machine without GPUs"),
		&cli.BoolFlag{Name: "draw", EnvVars: []string{"MIG_PARTED_DRAW"}, Destination: &o.draw, Usage: "also draw the layouts"},
		o.formatFlag("MIG_PLAN_OUTPUT_FORMAT", "text", "json"),
	)
	return &cli.Command{
		Name: "plan", Usage: "print the changes that apply would make, or why they are not possible; changes nothing",
		Flags: flags, Action: s.action(o.plan),
	}
}

func (o *command) plan(c *cli.Context, log *slog.Logger) error {
	config, name, err := o.selection()
	if err != nil {
		return err
	}
	p, err := o.changes(c.Context, config, name, log)
	if err != nil {
		return err
	}
	if o.format == "json" {
		return printPlanJSON(c.App.Writer, p)
	}
	return printPlan(c.App.Writer, p, o.draw)
}

// changes returns the plan for the GPUs that the flags name.
func (o *command) changes(ctx context.Context, config migconfig.Config, name string, log *slog.Logger) (apply.Plan, error) {
	gpus := o.boardGPUs(config.Indices(name))
	if o.snapshot != "" {
		if gpus != nil {
			return apply.Plan{}, cmdline.Usagef("flags --snapshot and --board: set only one of them")
		}
		var err error
		if gpus, err = readSnapshot(o.snapshot); err != nil {
			return apply.Plan{}, err
		}
	}
	if gpus != nil {
		return o.offline(config, name, gpus, log)
	}
	return o.planNode(ctx, config, name, log)
}

// planNode plans for the GPUs of the node. The plan includes the users that prevent it.
func (o *command) planNode(ctx context.Context, config migconfig.Config, name string, log *slog.Logger) (p apply.Plan, err error) {
	err = o.onNode(log, func(n *node) error {
		seen, err := n.Observe(ctx)
		if err != nil {
			return err
		}
		s, err := choose(config, name, seen.GPUs(), log)
		if err != nil {
			return err
		}
		p, err = n.Plan(ctx, apply.Request{Seen: seen, Desired: s.Want, ModeOnly: o.modeOnly})
		return errors.Join(err, p.Err(), s.Unreadable())
	})
	return p, err
}

// offline plans for GPUs that are not on this node.
func (o *command) offline(config migconfig.Config, name string, gpus []mig.GPU, log *slog.Logger) (apply.Plan, error) {
	s, err := choose(config, name, gpus, log)
	if err != nil {
		return apply.Plan{}, err
	}
	p, err := apply.Offline(gpus, apply.Request{Desired: s.Want, ModeOnly: o.modeOnly})
	return p, errors.Join(s.Unreadable(), err)
}

// boardGPUs returns n GPUs of the board that the flags name, or nil if they name none.
func (o *command) boardGPUs(n int) []mig.GPU {
	p, ok := boards.Named(o.board)
	if !ok {
		return nil
	}
	return gpusOf(p, p.DeviceIDs[0], n)
}

// gpusOf returns empty GPUs of a product.
func gpusOf(p boards.Product, device uint32, n int) []mig.GPU {
	var out []mig.GPU
	for i := range n {
		out = append(out, mig.GPU{
			Index: i, UUID: gpu.UUID(fmt.Sprintf("%s-%d", p.Name, i)), Name: p.Name, PCI: gpu.PCI{DeviceID: device},
			MemoryBytes: p.MemoryBytes, Capable: true, NeedsReset: p.NeedsReset, Board: p.Board,
		})
	}
	return out
}

func boardNames() []string {
	var names []string
	for _, p := range boards.All() {
		names = append(names, p.Name)
	}
	return names
}

// readSnapshot returns the GPUs in a snapshot file.
func readSnapshot(path string) ([]mig.GPU, error) {
	name, data, err := readFile("snapshot", path)
	if err != nil {
		return nil, err
	}
	var gpus []mig.GPU
	if err := json.Unmarshal(data, &gpus); err != nil {
		return nil, fmt.Errorf("read snapshot %s: %w: it must be the output of the command snapshot", name, err)
	}
	ids := map[gpu.UUID]bool{}
	for _, g := range gpus {
		if g.Fault == nil && (!g.UUID.Valid() || ids[g.UUID]) {
			return nil, fmt.Errorf("read snapshot %s: the UUID of GPU %d is missing or not unique: it must be the output of the command snapshot", name, g.Index)
		}
		ids[g.UUID] = true
		g.Layout.Sort()
	}
	if len(gpus) == 0 {
		return nil, fmt.Errorf("read snapshot %s: it has no GPUs", name)
	}
	return gpus, nil
}
