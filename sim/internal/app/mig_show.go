package app

import (
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/urfave/cli/v2"

	"outrigger.dev/sim/internal/node"
	"outrigger.dev/sim/internal/state"
)

// migGPU is a GPU in the output of "mig list".
type migGPU struct {
	Index int        `json:"index"`
	Slot  state.Slot `json:"slot"`
	UUID  string     `json:"uuid"`
	Model string     `json:"model"`
	state.MIG
}

func migListCommand() *cli.Command {
	var asJSON bool
	return command{
		parent: "mig", name: "list", args: "[GPU]", usage: "list MIG devices", max: 1, description: gpusHelp,
		flags: []cli.Flag{jsonFlag(&asJSON)},
		run: func(c *cli.Context, n *node.Node) error {
			ref := c.Args().First()
			if ref == "" {
				ref = "all"
			}
			gpus, err := gpusAt(n, ref)
			if err != nil {
				return fmt.Errorf("mig list: %w", err)
			}
			if asJSON {
				list := []migGPU{}
				for _, g := range gpus {
					if g.MIG != nil {
						list = append(list, migGPU{g.Index, g.Slot, g.UUID, g.Model, *g.MIG})
					}
				}
				return printJSON(c.App.Writer, list)
			}
			return printMIG(c, gpus)
		},
	}.cli()
}

func printMIG(c *cli.Context, gpus []state.GPU) error {
	t := tabwriter.NewWriter(c.App.Writer, 0, 0, 2, ' ', 0)
	fmt.Fprint(t, "GPU\tMODE\tGI\tPLACE\tCI\tSLICES\tDEVICE\tPROFILE\tMINORS\tUUID\n")
	for _, g := range gpus {
		if g.MIG == nil || len(g.MIG.GPUInstances) == 0 {
			fmt.Fprintf(t, "%d\t%s\n", g.Index, migMode(g))
			continue
		}
		for _, gi := range g.MIG.GPUInstances {
			head := fmt.Sprintf("%d\t%s\t%d\t%d:%d", g.Index, migMode(g), gi.ID, gi.Start, gi.Size)
			if len(gi.ComputeInstances) == 0 {
				fmt.Fprintf(t, "%s\t\t\t\t%s\t%d\tno compute instance\n", head, gi.Profile, gi.Minor)
			}
			for _, ci := range gi.ComputeInstances {
				fmt.Fprintf(t, "%s\t%d\t%d:%d\t%d\t%s\t%d, %d\t%s\n", head, ci.ID, ci.Start, ci.Size, ci.Index, ci.Profile, gi.Minor, ci.Minor, ci.UUID)
			}
		}
	}
	return t.Flush()
}

// migMode returns the MIG mode of a GPU as text.
func migMode(g state.GPU) string {
	word := map[bool]string{true: "on", false: "off"}
	switch {
	case g.MIG == nil:
		return "none"
	case g.MIG.Enabled != g.MIG.Pending:
		return word[g.MIG.Enabled] + " (" + word[g.MIG.Pending] + " after a reset)"
	default:
		return word[g.MIG.Enabled]
	}
}

// profile is a GPU instance profile in the output of "mig profiles".
type profile struct {
	state.GIProfile
	// Free is the number of further GPU instances that fit.
	Free int `json:"free"`
}

func migProfilesCommand() *cli.Command {
	var asJSON bool
	return command{
		parent: "mig", name: "profiles", args: "GPU", usage: "list the MIG profiles of a GPU", min: 1, max: 1, description: gpuHelp,
		flags: []cli.Flag{jsonFlag(&asJSON)},
		run: func(c *cli.Context, n *node.Node) error {
			profiles, err := profilesOf(n, c.Args().First())
			if err != nil {
				return fmt.Errorf("mig profiles: %w", err)
			}
			if asJSON {
				return printJSON(c.App.Writer, profiles)
			}
			return printProfiles(c, profiles)
		},
	}.cli()
}

func profilesOf(n *node.Node, ref string) ([]profile, error) {
	g, err := gpuAt(n, ref)
	if err != nil {
		return nil, err
	}
	board, err := n.State().Board(g.Slot)
	if err != nil {
		return nil, err
	}
	var list []profile
	for _, p := range board.Profiles {
		free, err := n.State().Capacity(g.Slot, p)
		if err != nil {
			return nil, err
		}
		list = append(list, profile{p, free})
	}
	return list, nil
}

func printProfiles(c *cli.Context, profiles []profile) error {
	t := tabwriter.NewWriter(c.App.Writer, 0, 0, 2, ' ', 0)
	fmt.Fprint(t, "PROFILE\tID\tFREE\tMEMORY\tSMS\tSTARTS\tSIZE\tCE/DEC/ENC/JPEG/OFA\tPARTS\tVERIFIED\n")
	for _, p := range profiles {
		var starts, parts []string
		for _, start := range p.Starts {
			starts = append(starts, strconv.Itoa(start))
		}
		for _, part := range p.Compute {
			if part.Slices != p.Slices {
				parts = append(parts, fmt.Sprintf("%d× %s", part.Max, part.Name))
			}
		}
		e := p.Engines
		fmt.Fprintf(t, "%s\t%d\t%d of %d\t%d MiB\t%d\t%s\t%d\t%d/%d/%d/%d/%d\t%s\t%t\n",
			p.Name, p.ID, p.Free, p.Max, p.MemoryMiB, p.SMs, strings.Join(starts, ","), p.Size,
			e.Copy, e.Decoder, e.Encoder, e.JPEG, e.OFA, strings.Join(parts, ", "), p.Verified)
	}
	return t.Flush()
}
