package app

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"outrigger.dev/sim/internal/node"
	"outrigger.dev/sim/internal/state"
)

func setCommand() *cli.Command {
	return command{
		name: "set", args: "KEY=VALUE…", usage: "change settings of a node",
		description: "driver=on|off        load or unload the driver: state, procfs, device nodes\n" +
			"latency=DURATION     make every NVML call last this long: 10us\n" +
			"GPU.FIELD=VALUE      set a value of a GPU: 0.temperature=85, or\n" +
			"                     0.fabric=in-progress, =completed:CLUSTER-UUID.CLIQUE, =failed:CODE,\n" +
			"                     0.clock-limits=power-cap,sw-thermal, 0.nvlink-crc-data-errors=LINK:COUNT\n" +
			"GPU/GI.FIELD=VALUE   set the utilization of a GPU instance, in percent: 0/1.sm-active=50\n" +
			"SYMBOL.return=CODE   make all calls of a symbol return a code of nvmlReturn_t; 0 ends it\n" +
			"SYMBOL.return=CODE@N make only the N-th call from now on return it; SYMBOL may be any,\n" +
			"                     for all symbols, and CODE may be kill, which kills the calling process\n\n" +
			gpuHelp + "\nFIELD is one of " + strings.Join(state.Fields(), ", ") + ".",
		min: 1, max: -1,
		run: func(c *cli.Context, n *node.Node) error {
			settings, err := parseSettings(c.Args().Slice())
			if err != nil {
				return fmt.Errorf("set: %w", err)
			}
			for _, s := range settings {
				if err := s.apply(n); err != nil {
					return fmt.Errorf("set: %w", err)
				}
				if _, err := fmt.Fprintf(c.App.Writer, "%s\n", s.text); err != nil {
					return err
				}
			}
			return nil
		},
	}.cli()
}

// setting is a KEY=VALUE argument.
type setting struct {
	text  string
	apply func(*node.Node) error
}

// parseSettings parses all arguments, before the first one is applied.
func parseSettings(args []string) ([]setting, error) {
	var settings []setting
	for _, arg := range args {
		apply, err := parseSetting(arg)
		if err != nil {
			return nil, err
		}
		settings = append(settings, setting{arg, apply})
	}
	return settings, nil
}

func parseSetting(arg string) (func(*node.Node) error, error) {
	key, value, ok := strings.Cut(arg, "=")
	if !ok {
		return nil, fmt.Errorf("%q: want KEY=VALUE, see \"gpu-sim set --help\"", arg)
	}
	switch key {
	case "driver":
		on, err := parseSwitch(key, value)
		return func(n *node.Node) error { return n.SetDriver(on) }, err
	case "latency":
		d, err := time.ParseDuration(value)
		if err != nil {
			return nil, fmt.Errorf("latency %q: want a duration such as 10us", value)
		}
		return func(n *node.Node) error { return n.State().SetLatency(d) }, nil
	}
	// A PCI bus ID also has a dot, so the last dot is the separator.
	dot := strings.LastIndexByte(key, '.')
	if dot < 0 {
		return nil, fmt.Errorf("%q: unknown key; want driver, latency, GPU.FIELD or SYMBOL.return", key)
	}
	ref, field := key[:dot], key[dot+1:]
	if field != "return" {
		return func(n *node.Node) error { return n.SetField(ref, field, value) }, nil
	}
	if code, call, ok := strings.Cut(value, "@"); ok {
		fault, err := state.ParseFault(ref, code, call)
		return func(n *node.Node) error { return n.State().SetFault(fault) }, err
	}
	code, err := strconv.Atoi(value)
	if err != nil {
		return nil, fmt.Errorf("%s: code %q: want a number of nvmlReturn_t, such as 999", key, value)
	}
	return func(n *node.Node) error { return n.State().ForceReturn(ref, code) }, nil
}
