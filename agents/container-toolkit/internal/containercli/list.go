package containercli

import (
	"fmt"
	"io"

	"outrigger.dev/agents/container-toolkit/internal/container"
	"outrigger.dev/pkg/driverroot"
)

func listCommand() command {
	f := newFlags("list", "", "Print the paths of the files of the host that containers get: all of them, or those that flags name.")
	asked := f.selection()
	show := listFilter{
		libraries: f.boolean("libraries", "l", "print libraries"),
		binaries:  f.boolean("binaries", "b", "print programs"),
		ipcs:      f.boolean("ipcs", "i", "print sockets"),
		firmwares: f.boolean("firmwares", "f", "print firmware"),
	}
	f.boolean("compat32", "", "no effect: 32-bit libraries are not searched for")
	return command{f, func(g global, args []string, stdout io.Writer) error {
		if len(args) > 0 {
			return fmt.Errorf("unexpected argument %q", args[0])
		}
		r, err := asked.request()
		if err != nil {
			return err
		}
		all := !asked.used() && !*show.libraries && !*show.binaries && !*show.ipcs && !*show.firmwares
		if all {
			r.Devices = []string{"all"}
		}
		r.Capabilities = driverroot.EveryCapability
		cfg, n, err := g.read()
		if err != nil {
			return err
		}
		plan, err := cfg.Plan(n, r, false)
		if err != nil {
			return err
		}
		for _, p := range show.paths(n, plan, all, asked.used()) {
			fmt.Fprintln(stdout, p)
		}
		return nil
	}}
}

// listFilter holds the flags that select which files are printed.
type listFilter struct{ libraries, binaries, ipcs, firmwares *bool }

func (s listFilter) paths(n *container.Node, plan *container.Plan, all, devices bool) []string {
	var out []string
	if all || devices {
		for _, node := range plan.Nodes {
			out = append(out, node.HostPath)
		}
	}
	if all || *s.libraries {
		for _, l := range n.Content.Libraries {
			out = append(out, l.HostPath)
		}
	}
	for _, part := range []struct {
		wanted bool
		files  []driverroot.File
	}{{*s.binaries, n.Content.Binaries}, {*s.ipcs, n.Content.Sockets}, {*s.firmwares, n.Content.Firmware}} {
		for _, f := range part.files {
			if all || part.wanted {
				out = append(out, f.HostPath)
			}
		}
	}
	return out
}
