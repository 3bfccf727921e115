package ctk

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/urfave/cli/v2"

	"outrigger.dev/agents/container-toolkit/internal/toolconfig"
	"outrigger.dev/pkg/hostfs"
)

// maxConfig is larger than any config.toml.
const maxConfig = 1 << 20

// configCommand returns "nvidia-ctk config".
func (p *program) configCommand() *cli.Command {
	var file, output string
	var inPlace bool
	changes := &changesFlag{}
	return &cli.Command{
		Name:  "config",
		Usage: "print or change the config file of the tools",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "config-file", Aliases: []string{"config", "c"}, Destination: &file, Usage: "config `FILE`; a file that does not exist has the defaults"},
			&cli.GenericFlag{Name: "set", Value: changes, Usage: "set `KEY[=VALUE]`; can be repeated; items of a list are separated by \":\" or \",\"; \"nil\" removes the key"},
			&cli.BoolFlag{Name: "in-place", Aliases: []string{"i"}, Destination: &inPlace, Usage: "change the config file"},
			outputFlag(&output),
		},
		Action: func(*cli.Context) error {
			if inPlace && output != "" {
				return errors.New("flags --in-place and --output: set only one of them")
			}
			path := configPath(cmp.Or(file, p.config))
			data, err := hostfs.ReadFile(path, maxConfig)
			if errors.Is(err, fs.ErrNotExist) {
				data, err = toolconfig.DefaultFile(), nil
			}
			if err == nil {
				data, err = toolconfig.Edit(data, changes.all...)
			}
			if err != nil {
				return fmt.Errorf("config %s: %w", path, err)
			}
			if _, warnings, err := toolconfig.Parse(data); err == nil {
				for _, w := range warnings {
					p.printNote("config " + path + ": " + w)
				}
			}
			if inPlace {
				output = path
			}
			return p.printOrWrite(output, data)
		},
		Subcommands: []*cli.Command{{
			Name:    "create-default",
			Aliases: []string{"default", "generate-default"},
			Usage:   "print a config file with the defaults, and with comments on its keys",
			Flags:   []cli.Flag{outputFlag(&output)},
			Action: func(*cli.Context) error {
				return p.printOrWrite(output, toolconfig.DefaultFile())
			},
		}},
	}
}

func outputFlag(output *string) cli.Flag {
	return &cli.StringFlag{Name: "output", Aliases: []string{"o"}, Destination: output, Usage: "write to `FILE` instead of the standard output"}
}

// printOrWrite writes data to a file, or prints it if path is empty.
func (p *program) printOrWrite(path string, data []byte) error {
	if path != "" {
		return writeOutput(path, data)
	}
	_, err := p.stdout.Write(data)
	return err
}

// changesFlag is the flag --set. A slice flag of the library would split values at commas.
type changesFlag struct{ all []toolconfig.Change }

// Set adds a change.
func (f *changesFlag) Set(value string) error {
	change, err := toolconfig.ParseChange(value)
	f.all = append(f.all, change)
	return err
}

// String returns the keys, separated by commas.
func (f *changesFlag) String() string {
	keys := make([]string, len(f.all))
	for i, c := range f.all {
		keys[i] = c.Key
	}
	return strings.Join(keys, ",")
}
