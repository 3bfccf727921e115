package app

import (
	"log/slog"
	"strconv"

	"github.com/urfave/cli/v2"

	"outrigger.dev/agents/mig-manager/internal/apply"
	"outrigger.dev/agents/mig-manager/internal/migconfig"
	"outrigger.dev/pkg/gpu"
	"outrigger.dev/pkg/gpu/mig"
)

func (s *settings) applyCommand() *cli.Command {
	o := &command{settings: s}
	flags := append(o.configFlags("config to apply; optional if the file has only one config"),
		&cli.BoolFlag{
			Name: "skip-reset", Aliases: []string{"s"}, EnvVars: []string{"MIG_PARTED_SKIP_RESET"}, Destination: &o.skipReset,
			Usage: "do not reset GPUs; a change of the MIG mode that needs a reset stays pending",
		},
		o.modeFlag("change only the MIG mode, without creating MIG devices"),
	)
	return &cli.Command{
		Name: "apply", Usage: "create the MIG devices of a config, unless the GPUs have them already",
		Flags: append(flags, o.hookFlags()...), Action: s.action(o.apply),
	}
}

func (o *command) apply(c *cli.Context, log *slog.Logger) error {
	config, name, err := o.selection()
	if err != nil {
		return err
	}
	env := map[string]string{
		"MIG_PARTED_CONFIG_FILE": o.file, "MIG_PARTED_SELECTED_CONFIG": name,
		"MIG_PARTED_SKIP_RESET": strconv.FormatBool(o.skipReset),
	}
	return change{command: o, log: log, done: "MIG configuration applied successfully", request: func(gpus []mig.GPU) (apply.Request, error, error) {
		s, err := choose(config, name, gpus, log)
		return apply.Request{Desired: s.Want, SkipReset: o.skipReset}, s.Unreadable(), err
	}}.run(c, env)
}

func (s *settings) restoreCommand() *cli.Command {
	o := &command{settings: s}
	flags := []cli.Flag{
		o.checkpointFlag("`FILE` with the checkpoint; - for standard input"),
		o.modeFlag("restore only the MIG mode, without creating MIG devices"),
	}
	return &cli.Command{
		Name: "restore", Usage: "restore the MIG modes and layouts of a checkpoint, with the placement of each instance",
		Flags: append(flags, o.hookFlags()...), Action: s.action(o.restore),
	}
}

func (o *command) restore(c *cli.Context, log *slog.Logger) error {
	file, data, err := readFile("checkpoint-file", o.checkpoint)
	if err != nil {
		return err
	}
	saved, err := migconfig.ReadCheckpoint(file, data)
	if err != nil {
		return err
	}
	env := map[string]string{"MIG_PARTED_CHECKPOINT_FILE": o.checkpoint}
	return change{command: o, log: log, done: "MIG configuration restored successfully", request: func(gpus []mig.GPU) (apply.Request, error, error) {
		req := apply.Request{Desired: map[gpu.UUID]mig.Desired{}, Layouts: map[gpu.UUID]mig.Layout{}}
		states, err := saved.States(gpus)
		for id, s := range states {
			req.Desired[id] = s.Desired()
			req.Layouts[id] = s.Layout
		}
		return req, nil, err
	}}.run(c, env)
}
