package app

import (
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"outrigger.dev/pkg/agent"
	"outrigger.dev/pkg/agent/configfile"
	"outrigger.dev/pkg/agent/gpuconfig"
)

// commands are those of the plugin, beside those that every agent has.
func commands() []*cli.Command {
	return []*cli.Command{
		{
			Name:   "validate",
			Usage:  "check the config file of --config, or all in --config-dir; needs no GPU",
			Action: validate,
		},
		{
			Name:  "explain",
			Usage: "print what the flags and the config file of --config offer of a node, and what they do not",
			Flags: []cli.Flag{
				&cli.PathFlag{
					Name: "node", EnvVars: []string{"EXPLAIN_NODE"},
					Usage: "`FILE` with what the sub-command snapshot printed; without it, the node of --gpu-source",
				},
				&cli.StringFlag{
					Name: "output", EnvVars: []string{"EXPLAIN_OUTPUT"}, Value: outputTable,
					Usage: "`FORMAT`: table or json",
				},
			},
			Action: explain,
		},
	}
}

// validate prints one line for each file, or one for each thing that is wrong
// with it. Flags and variables count, as they do when the plugin runs.
func validate(c *cli.Context) error {
	if c.Args().Present() {
		return agent.Usagef("unexpected argument %q: the file is the value of --config", c.Args().First())
	}
	file, err := configfile.FileOf(c)
	if err != nil {
		return err
	}
	paths, err := file.All()
	if err != nil {
		return err
	}
	var bad []string
	for _, path := range paths {
		data, err := configfile.Read(path)
		if err == nil {
			_, err = gpuconfig.Parse(c, path, data)
			if err != nil && !gpuconfig.InFile(err) {
				return err
			}
		}
		if err == nil {
			_, _ = fmt.Fprintf(c.App.Writer, "%s: valid\n", path)
			continue
		}
		_, _ = fmt.Fprintln(c.App.Writer, err)
		bad = append(bad, path)
	}
	if len(bad) > 0 {
		return fmt.Errorf("%s is not valid", strings.Join(bad, ", "))
	}
	return nil
}
