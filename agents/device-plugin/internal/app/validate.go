package app

import (
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"outrigger.dev/pkg/agent/configfile"
	"outrigger.dev/pkg/agent/gpuconfig"
	"outrigger.dev/pkg/config"
)

// commands are the commands of the plugin, in addition to those of every agent.
func commands() []*cli.Command {
	return []*cli.Command{
		{
			Name:   "validate",
			Usage:  "validate the config file --config, or all files in --config-dir; needs no GPU",
			Action: validate,
		},
		{
			Name:  "explain",
			Usage: "print which devices of a node the flags and the config file --config advertise, and which they do not",
			Flags: []cli.Flag{
				&cli.PathFlag{
					Name: "node", EnvVars: []string{"EXPLAIN_NODE"},
					Usage: "`FILE` with the output of the command snapshot; if empty, the GPUs of gpu-source",
				},
				&cli.StringFlag{
					Name: "output", EnvVars: []string{"EXPLAIN_OUTPUT"}, Value: outputTable,
					Usage: "output `FORMAT`: table or json",
				},
			},
			Action: explain,
		},
	}
}

// validate prints one line for each valid file, after its warnings, and one for each
// error in the others.
// It takes flags and variables into account, as the plugin does.
func validate(c *cli.Context) error {
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
		var cfg config.Config
		data, err := configfile.Read(path)
		if err == nil {
			cfg, err = gpuconfig.Parse(c, path, data)
			if err != nil && !gpuconfig.InFile(err) {
				return err
			}
		}
		for _, w := range cfg.Warnings {
			_, _ = fmt.Fprintf(c.App.Writer, "warning: %s\n", w)
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
