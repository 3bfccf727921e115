package ctk

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/urfave/cli/v2"

	"outrigger.dev/agents/container-toolkit/internal/toolconfig"
	"outrigger.dev/pkg/hostfs"
)

// maxConfig is more than any config.toml has.
const maxConfig = 1 << 20

// configCommand returns "nvidia-ctk config".
func configCommand(stdout io.Writer) *cli.Command {
	changes := &changesFlag{}
	return &cli.Command{
		Name:  "config",
		Usage: "print or change the config file of the tools",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "config-file", Aliases: []string{"config", "c"}, Usage: "config `FILE`; a file that does not exist has the defaults"},
			&cli.GenericFlag{Name: "set", Value: changes, Usage: "set `KEY[=VALUE]`; can be repeated; items of a list are separated by \":\" or \",\"; \"nil\" removes the key"},
			&cli.BoolFlag{Name: "in-place", Aliases: []string{"i"}, Usage: "change the config file"},
			outputFlag(),
		},
		Action: func(c *cli.Context) error {
			if c.Bool("in-place") && c.String("output") != "" {
				return errors.New("config: --in-place and --output exclude each other: use one of them")
			}
			// An option of the command hides that of the program.
			path := toolconfig.Path(cmp.Or(c.String("config-file"), c.Lineage()[1].String("config")), os.Getenv, toolconfig.Beside())
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
			output := c.String("output")
			if c.Bool("in-place") {
				output = path
			}
			return printOrWrite(stdout, output, data)
		},
		Subcommands: []*cli.Command{{
			Name:    "create-default",
			Aliases: []string{"default"},
			Usage:   "print a config file with the defaults, and what its keys mean",
			Flags:   []cli.Flag{outputFlag()},
			Action: func(c *cli.Context) error {
				return printOrWrite(stdout, c.String("output"), toolconfig.DefaultFile())
			},
		}},
	}
}

func outputFlag() cli.Flag {
	return &cli.StringFlag{Name: "output", Aliases: []string{"o"}, Usage: "write to `FILE` instead of the standard output"}
}

// printOrWrite writes data to a file, or prints it if there is no path.
func printOrWrite(stdout io.Writer, path string, data []byte) error {
	if path != "" {
		return writeOutput(path, data)
	}
	_, err := stdout.Write(data)
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
