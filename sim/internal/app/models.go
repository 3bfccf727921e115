package app

import (
	"fmt"
	"text/tabwriter"

	"github.com/urfave/cli/v2"

	"outrigger.dev/sim/internal/model"
)

func modelsCommand() *cli.Command {
	return &cli.Command{
		Name: "models", ArgsUsage: "[MODEL]", Usage: "list the products, or print the data file of one",
		Description: "The data file is a start for an own model: change a copy, and create a node with --model FILE.",
		Action: func(c *cli.Context) error {
			switch c.NArg() {
			case 0:
				return listModels(c)
			case 1:
				return printModel(c, c.Args().First())
			default:
				return fmt.Errorf("models: wrong number of arguments; usage: gpu-sim models [MODEL]")
			}
		},
	}
}

func listModels(c *cli.Context) error {
	t := tabwriter.NewWriter(c.App.Writer, 0, 0, 2, ' ', 0) // two spaces between columns
	fmt.Fprint(t, "MODEL\tPRODUCT\tMEMORY\tCAPABILITY\tSERVER\tMIG PROFILES\n")
	for _, name := range model.Names() {
		m, err := model.Builtin(name)
		if err != nil {
			return err
		}
		profiles := 0
		if m.MIG != nil {
			profiles = len(m.MIG.Profiles)
		}
		fmt.Fprintf(t, "%s\t%s\t%d MiB\t%d.%d\t%s\t%d\n", m.Name, m.Product, m.Memory, m.ComputeCapability[0], m.ComputeCapability[1], m.Server.Name, profiles)
	}
	return t.Flush()
}

func printModel(c *cli.Context, ref string) error {
	m, err := model.Find(ref)
	if err != nil {
		return fmt.Errorf("models: %w", err)
	}
	data, err := model.Data(m.Name)
	if err != nil {
		return fmt.Errorf("models: %w", err)
	}
	_, err = c.App.Writer.Write(data)
	return err
}
