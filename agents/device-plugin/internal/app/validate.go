package app

import (
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"outrigger.dev/pkg/agent/configfile"
	"outrigger.dev/pkg/agent/gpuconfig"
	"outrigger.dev/pkg/cmdline"
	"outrigger.dev/pkg/config"
)

// commands returns the commands that the device plugin has and other agents do not.
func (s *settings) commands() []*cli.Command {
	return []*cli.Command{
		{
			Name:   "validate",
			Usage:  "validate the config file --config-file, or all files in --config-dir; needs no GPU",
			Action: s.validate,
		},
		s.explainCommand(),
	}
}

// validate prints the warnings about each file, and then either that the file is valid, or
// one line per error. Like the plugin, it takes flags and environment variables into account.
func (s *settings) validate(c *cli.Context) error {
	paths, err := s.gpus.File.All()
	if err != nil {
		return err
	}
	var bad []string
	for _, path := range paths {
		var cfg config.Config
		data, err := configfile.ReadInput(path)
		if err == nil {
			cfg, err = s.gpus.Parse(path, data)
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
		_, _ = fmt.Fprintln(c.App.Writer, cmdline.FileError(err))
		bad = append(bad, path)
	}
	if len(bad) > 0 {
		return fmt.Errorf("%s is not valid", strings.Join(bad, ", "))
	}
	return nil
}
