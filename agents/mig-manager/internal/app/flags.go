package app

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/urfave/cli/v2"

	"outrigger.dev/agents/mig-manager/internal/migconfig"
	"outrigger.dev/pkg/agent"
	"outrigger.dev/pkg/cmdline"
	"outrigger.dev/pkg/contract"
	"outrigger.dev/pkg/hostfs"
	"outrigger.dev/pkg/text"
)

// command holds the values of the flags of one command. Each command has only some of these flags.
// Their names and variables are mig-parted's.
type command struct {
	*settings

	// file is the path of the config file, and selected the name of a config in it.
	file, selected           string
	modeOnly, skipReset      bool
	validOnly, allGPUs, draw bool
	format, label, exitCodes string
	board, snapshot          string
	output, checkpoint       string
	hooksFile                string
	hookLimit                time.Duration
}

func (o *command) configFlags(selected string) []cli.Flag {
	return []cli.Flag{
		&cli.PathFlag{
			Name: "config-file", Aliases: []string{"f"}, EnvVars: []string{"MIG_PARTED_CONFIG_FILE"}, Destination: &o.file,
			Usage: "`FILE` with MIG configs; - for standard input",
		},
		&cli.StringFlag{
			Name: "selected-config", Aliases: []string{"c"}, EnvVars: []string{"MIG_PARTED_SELECTED_CONFIG"}, Destination: &o.selected,
			Usage: "`NAME` of the " + selected,
		},
	}
}

func (o *command) modeFlag(usage string) cli.Flag {
	return &cli.BoolFlag{
		Name: "mode-only", Aliases: []string{"m"}, EnvVars: []string{"MIG_PARTED_MODE_CHANGE_ONLY", "MIG_PARTED_MODE_ONLY"}, Destination: &o.modeOnly,
		Usage: usage,
	}
}

func (o *command) formatFlag(env string, formats ...string) cli.Flag {
	return cmdline.Enum(&cli.StringFlag{
		Name: "output-format", Aliases: []string{"o"}, EnvVars: []string{env}, Value: formats[0], Destination: &o.format,
		Usage: "`FORMAT` of the output: " + text.OneOf(formats),
	}, formats...)
}

func (o *command) checkpointFlag(usage string) cli.Flag {
	return &cli.PathFlag{
		Name: "checkpoint-file", Aliases: []string{"f"}, EnvVars: []string{"MIG_PARTED_CHECKPOINT_FILE"}, Destination: &o.checkpoint, Usage: usage,
	}
}

func (o *command) boardFlag(usage string) cli.Flag {
	return cmdline.Enum(&cli.StringFlag{Name: "board", EnvVars: []string{"MIG_PARTED_BOARD"}, Destination: &o.board, Usage: usage}, boardNames()...)
}

// claimedCode is the exit code of a command that waited for NVML until --lease-timeout, because
// another program had claimed it.
const claimedCode = 3

// action returns an action that sets the log level, and then runs a command.
func (s *settings) action(run func(c *cli.Context, log *slog.Logger) error) cli.ActionFunc {
	return func(c *cli.Context) error {
		if s.debug {
			if err := c.Set("log-level", "debug"); err != nil {
				return err
			}
		}
		err := run(c, agent.Logger(c))
		if errors.Is(err, contract.ErrClaimed) {
			return cli.Exit(err, claimedCode)
		}
		return err
	}
}

// maxFile is the largest size of a file that a command reads, in bytes.
const maxFile = 16 << 20

// readFile reads the file that a flag names, or standard input. name is its name in errors.
func readFile(flag, path string) (name string, data []byte, err error) {
	if path == "" {
		return "", nil, cmdline.Usagef("flag --%s: is missing: it must name a file", flag)
	}
	if data, err = hostfs.ReadInput(path, os.Stdin, maxFile); err != nil {
		return "", nil, fmt.Errorf("flag --%s: %w", flag, err)
	}
	if path == "-" {
		path = "standard input"
	}
	return path, data, nil
}

// readConfig returns the config file that the flags name.
func (o *command) readConfig() (migconfig.Config, error) {
	name, data, err := readFile("config-file", o.file)
	if err != nil {
		return migconfig.Config{}, err
	}
	return migconfig.Read(name, data)
}

// selection returns the config file, and the name of the selected config in it.
func (o *command) selection() (migconfig.Config, string, error) {
	config, err := o.readConfig()
	if err != nil {
		return migconfig.Config{}, "", err
	}
	name, names := o.selected, config.Names()
	switch {
	case name == "" && len(names) == 1:
		name = names[0]
	case name == "":
		return migconfig.Config{}, "", cmdline.Usagef("flag --selected-config: is missing: the file has several configs: must be %s", config.Choices())
	}
	if _, ok := config.Entries[name]; !ok {
		return migconfig.Config{}, "", fmt.Errorf("%w: %q: must be %s", migconfig.ErrNoEntry, name, config.Choices())
	}
	return config, name, nil
}

// printLine prints a line.
func printLine(c *cli.Context, line string) error {
	_, err := fmt.Fprintln(c.App.Writer, line)
	return err
}
