package app

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/urfave/cli/v2"

	"outrigger.dev/agents/mig-manager/internal/boards"
	"outrigger.dev/agents/mig-manager/internal/migconfig"
	"outrigger.dev/agents/mig-manager/internal/plan"
	"outrigger.dev/pkg/gpu"
)

func (s *settings) validateCommand() *cli.Command {
	o := &command{settings: s}
	return &cli.Command{
		Name: "validate", Usage: "check a config file against all known boards, without a GPU",
		Flags: append(o.configFlags("only config to check; empty for all"),
			o.boardFlag("`NAME` of a board that must support each config; if empty, one known board must"),
			o.formatFlag("MIG_VALIDATE_OUTPUT_FORMAT", "text", "json"),
		),
		Action: s.action(o.validate),
	}
}

// verdict lists the boards that can have a config.
type verdict struct {
	Config string `json:"config"`
	// Boards lists the boards that can have it.
	Boards []string `json:"boards"`
	// Problems lists the errors of the config. A config without problems is valid.
	Problems []string `json:"problems"`
	// why maps each other board to its error.
	why map[string]error
}

func (o *command) validate(c *cli.Context, log *slog.Logger) error {
	config, err := o.readConfig()
	if err != nil {
		return err
	}
	names, products := config.Names(), boards.All()
	if o.selected != "" {
		if _, _, err = o.selection(); err != nil {
			return err
		}
		names = []string{o.selected}
	}
	if p, ok := boards.Named(o.board); ok {
		products = []boards.Product{p}
	}
	verdicts := make([]verdict, 0, len(names))
	invalid := 0
	for _, name := range names {
		v := judge(config, name, products)
		if o.board != "" && len(v.Boards) == 0 && len(v.Problems) == 0 {
			v.Problems = []string{fmt.Sprintf("%s: %v", o.board, v.why[o.board])}
		}
		if len(v.Boards) == 0 && len(v.Problems) == 0 {
			v.Problems = []string{v.nearest(products)}
		}
		if len(v.Problems) > 0 {
			invalid++
		}
		verdicts = append(verdicts, v)
	}
	warnUnknown(config, names, log)
	if err := printVerdicts(c, verdicts, o.format); err != nil {
		return err
	}
	if invalid > 0 {
		return fmt.Errorf("%d of %d configs are not valid", invalid, len(verdicts))
	}
	return nil
}

// judge finds the products that can have a config. It reports an error as a problem if it occurs on
// every node: items that overlap, and MIG devices that no board of a product in the device filter
// can have.
func judge(config migconfig.Config, name string, products []boards.Product) verdict {
	v := verdict{Config: name, Boards: []string{}, Problems: []string{}, why: map[string]error{}}
	can := map[uint32]bool{}
	wrong, clash := map[uint32]error{}, map[string][]string{}
	for _, p := range products {
		for _, device := range p.DeviceIDs {
			err := possible(config, name, p, device)
			infeasible := (*plan.Infeasible)(nil)
			switch {
			case err == nil:
				can[device] = true
				v.Boards = appendUnique(v.Boards, p.Name)
				continue
			case errors.Is(err, migconfig.ErrNoMatch):
			case !errors.As(err, &infeasible):
				clash[err.Error()] = appendUnique(clash[err.Error()], p.Name)
			case config.Filters(name, device):
				wrong[device] = fmt.Errorf("%s (%s): %w", p.Name, migconfig.Filter{Device: device}, err)
			}
			v.why[p.Name] = err
		}
	}
	for _, device := range slices.Sorted(maps.Keys(wrong)) {
		if !can[device] {
			v.Problems = append(v.Problems, wrong[device].Error())
		}
	}
	for _, text := range slices.Sorted(maps.Keys(clash)) {
		v.Problems = append(v.Problems, fmt.Sprintf("%s: %s", listed(clash[text]), text))
	}
	return v
}

// appendUnique adds a word to a list, unless the list has it.
func appendUnique(list []string, word string) []string {
	if slices.Contains(list, word) {
		return list
	}
	return append(list, word)
}

// listed formats a list of boards.
func listed(names []string) string {
	switch len(names) {
	case len(boards.All()):
		return "all"
	case 0:
		return "none"
	default:
		return strings.Join(names, ", ")
	}
}

// nearest explains why the products cannot have a config. It uses the first product that has all
// profiles of the config.
func (v *verdict) nearest(products []boards.Product) string {
	for _, p := range products {
		infeasible := (*plan.Infeasible)(nil)
		unknown := func(c plan.Cause) bool { return c.Limit == plan.UnknownProfile }
		if errors.As(v.why[p.Name], &infeasible) && !slices.ContainsFunc(infeasible.Causes, unknown) {
			return fmt.Sprintf("no known board supports it; %s: %v", p.Name, infeasible)
		}
	}
	return "no known board has all of its profiles"
}

// possible returns nil if the GPUs of a product can have a config.
func possible(config migconfig.Config, name string, p boards.Product, device uint32) error {
	gpus := gpusOf(p, device, config.Indices(name))
	s, err := config.Select(name, gpus)
	if err != nil {
		return err
	}
	for _, g := range gpus {
		if want, ok := s.Want[g.UUID]; ok && want.Enabled {
			if _, err := plan.Target(g.Board, nil, want.Devices, nil); err != nil {
				return err
			}
		}
	}
	return nil
}

// warnUnknown logs device filters for products that are not in the table of boards.
func warnUnknown(config migconfig.Config, names []string, log *slog.Logger) {
	seen := map[uint32]bool{}
	for _, name := range names {
		for _, item := range config.Entries[name] {
			for _, f := range item.Filters {
				if _, ok := boards.Find(gpu.PCI{DeviceID: f.Device}, 0); !ok && !seen[f.Device] {
					log.Warn("unknown product, not checking its devices in the config", "device_filter", f, "config", name)
				}
				seen[f.Device] = true
			}
		}
	}
}

func printVerdicts(c *cli.Context, verdicts []verdict, format string) error {
	if format == "json" {
		return printJSON(c.App.Writer, verdicts)
	}
	table := tabwriter.NewWriter(c.App.Writer, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "CONFIG\tVALID\tBOARDS")
	for _, v := range verdicts {
		valid := "yes"
		if len(v.Problems) > 0 {
			valid = "no"
		}
		fmt.Fprintf(table, "%s\t%s\t%s\n", v.Config, valid, listed(v.Boards))
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("print the result: %w", err)
	}
	for _, v := range verdicts {
		for _, p := range v.Problems {
			if err := printLine(c, v.Config+": "+p); err != nil {
				return err
			}
		}
	}
	return nil
}
