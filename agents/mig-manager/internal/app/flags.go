package app

import (
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/urfave/cli/v2"

	"outrigger.dev/agents/mig-manager/internal/migconfig"
	"outrigger.dev/pkg/agent"
	"outrigger.dev/pkg/hostfs"
	"outrigger.dev/pkg/text"
)

// The flags and variables of mig-parted.

func configFlags(what string) []cli.Flag {
	return []cli.Flag{
		&cli.PathFlag{
			Name: "config-file", Aliases: []string{"f"}, EnvVars: []string{"MIG_PARTED_CONFIG_FILE"},
			Usage: "`FILE` with MIG configs; - for standard input",
		},
		&cli.StringFlag{
			Name: "selected-config", Aliases: []string{"c"}, EnvVars: []string{"MIG_PARTED_SELECTED_CONFIG"},
			Usage: "`NAME` of the config " + what + "; may be left out if the file has only one",
		},
	}
}

func modeFlag(usage string) cli.Flag {
	return &cli.BoolFlag{
		Name: "mode-only", Aliases: []string{"m"}, EnvVars: []string{"MIG_PARTED_MODE_CHANGE_ONLY", "MIG_PARTED_MODE_ONLY"},
		Usage: usage,
	}
}

func formatFlag(env string, formats ...string) cli.Flag {
	return &cli.StringFlag{
		Name: "output-format", Aliases: []string{"o"}, EnvVars: []string{env}, Value: formats[0],
		Usage: "`FORMAT` of the output: " + text.OneOf(formats),
	}
}

func checkpointFlag(usage string) cli.Flag {
	return &cli.PathFlag{
		Name: "checkpoint-file", Aliases: []string{"f"}, EnvVars: []string{"MIG_PARTED_CHECKPOINT_FILE"}, Usage: usage,
	}
}

// action gives a command its log.
func action(run func(c *cli.Context, log *slog.Logger) error) cli.ActionFunc {
	return func(c *cli.Context) error {
		if c.Bool("debug") {
			if err := c.Set("log-level", "debug"); err != nil {
				return err
			}
		}
		log, err := agent.Logger(c)
		if err != nil {
			return err
		}
		return run(c, log)
	}
}

// maxFile bounds files that a command reads.
const maxFile = 16 << 20

// readFile returns the content of the regular file that a flag names, or of standard input, and
// what errors call it.
func readFile(c *cli.Context, flag string) (name string, data []byte, err error) {
	switch name = c.Path(flag); name {
	case "":
		return "", nil, agent.Usagef("flag --%s: is missing: it must name a file", flag)
	case "-":
		name = "standard input"
		data, err = io.ReadAll(io.LimitReader(os.Stdin, maxFile+1))
		if err == nil && len(data) > maxFile {
			err = fmt.Errorf("it has more than %d MiB", maxFile>>20)
		}
		if err != nil {
			return "", nil, fmt.Errorf("read %s: %w", name, err)
		}
	default:
		if data, err = hostfs.ReadFile(name, maxFile); err != nil {
			return "", nil, fmt.Errorf("flag --%s: %w", flag, err)
		}
	}
	return name, data, nil
}

// readConfig returns the config file that the flags name.
func readConfig(c *cli.Context) (migconfig.Config, error) {
	name, data, err := readFile(c, "config-file")
	if err != nil {
		return migconfig.Config{}, err
	}
	return migconfig.Read(name, data)
}

// selected returns the config file, and the name of the config in it that the flags select.
func selected(c *cli.Context) (migconfig.Config, string, error) {
	config, err := readConfig(c)
	if err != nil {
		return migconfig.Config{}, "", err
	}
	name, names := c.String("selected-config"), config.Names()
	switch {
	case name == "" && len(names) == 1:
		name = names[0]
	case name == "":
		return migconfig.Config{}, "", agent.Usagef("flag --selected-config: is missing: the file has several configs: must be %s", config.Choices())
	}
	if _, ok := config.Entries[name]; !ok {
		return migconfig.Config{}, "", fmt.Errorf("%w: %q: must be %s", migconfig.ErrNoEntry, name, config.Choices())
	}
	return config, name, nil
}

// say prints a line.
func say(c *cli.Context, line string) error {
	_, err := fmt.Fprintln(c.App.Writer, line)
	return err
}
