package app

import (
	"errors"
	"fmt"
	"log/slog"

	"github.com/urfave/cli/v2"

	"outrigger.dev/pkg/cmdline"
	"outrigger.dev/pkg/contract"
)

// notApplied is the error of an assert if the GPUs differ from the config.
type notApplied struct{ differences error }

func (e *notApplied) Error() string {
	return "assertion failure: selected configuration not currently applied: " + e.differences.Error()
}

func (s *settings) assertCommand() *cli.Command {
	o := &command{settings: s}
	flags := append(o.configFlags("config to compare with; optional if the file has only one config"),
		o.modeFlag("compare only the MIG mode"),
		&cli.BoolFlag{
			Name: "valid-config", Aliases: []string{"a"}, EnvVars: []string{"MIG_PARTED_VALID_CONFIG"}, Destination: &o.validOnly,
			Usage: "check only that the file is valid and has the config",
		},
		&cli.BoolFlag{
			Name: "all-gpus", EnvVars: []string{"MIG_PARTED_ALL_GPUS"}, Destination: &o.allGPUs,
			Usage: "also fail if the config does not select every GPU of the node, as mig-parted does",
		},
		cmdline.Enum(&cli.StringFlag{
			Name: "exit-codes", EnvVars: []string{"MIG_PARTED_EXIT_CODES"}, Value: "mig-parted", Destination: &o.exitCodes,
			Usage: "exit `CODES`: mig-parted (1 for any failure), or detailed (1 if the config is not applied, 2 for an error)",
		}, "mig-parted", "detailed"),
	)
	return &cli.Command{
		Name: "assert", Usage: "check whether the GPUs have the MIG devices of a config",
		Flags: flags, Action: s.action(o.assert),
	}
}

// assert returns errors with the exit code that the flags select.
func (o *command) assert(c *cli.Context, log *slog.Logger) error {
	err := o.assertConfig(c, log)
	_, differs := errors.AsType[*notApplied](err)
	if err == nil || differs || o.exitCodes != "detailed" || errors.Is(err, contract.ErrClaimed) {
		return err
	}
	return cli.Exit(err, 2)
}

func (o *command) assertConfig(c *cli.Context, log *slog.Logger) error {
	config, name, err := o.selection()
	if err != nil {
		return err
	}
	if o.validOnly {
		return printLine(c, "Selected MIG configuration is valid")
	}
	gpus, err := o.observe(c.Context, log)
	if err != nil {
		return err
	}
	s, err := choose(config, name, gpus, log)
	if err != nil {
		return err
	}
	if err := s.Unreadable(); err != nil {
		return err
	}
	var differences []error
	for _, g := range gpus {
		if want, ok := s.Want[g.UUID]; ok {
			differences = append(differences, inForce(g, want, o.modeOnly))
		}
	}
	if o.allGPUs {
		for _, g := range s.Unmatched {
			differences = append(differences, fmt.Errorf("GPU %d: the config does not select it", g.Index))
		}
	}
	if err := errors.Join(differences...); err != nil {
		return &notApplied{err}
	}
	if o.modeOnly {
		return printLine(c, "Selected MIG mode settings from configuration currently applied")
	}
	return printLine(c, "Selected MIG configuration currently applied")
}
