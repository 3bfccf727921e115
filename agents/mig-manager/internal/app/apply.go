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

func applyCommand() *cli.Command {
	flags := append(configFlags("to apply"),
		&cli.BoolFlag{
			Name: "skip-reset", Aliases: []string{"s"}, EnvVars: []string{"MIG_PARTED_SKIP_RESET"},
			Usage: "leave a change of the MIG mode that needs a reset of the GPU pending",
		},
		modeFlag("change only the MIG mode, and make no MIG devices"),
	)
	return &cli.Command{
		Name: "apply", Usage: "bring the GPUs to the MIG devices of a config, if they do not have them",
		Flags: append(flags, hookFlags()...), Action: action(applyConfig),
	}
}

func applyConfig(c *cli.Context, log *slog.Logger) error {
	config, name, err := selected(c)
	if err != nil {
		return err
	}
	env := map[string]string{
		"MIG_PARTED_CONFIG_FILE": c.Path("config-file"), "MIG_PARTED_SELECTED_CONFIG": name,
		"MIG_PARTED_SKIP_RESET": strconv.FormatBool(c.Bool("skip-reset")),
	}
	return change{log: log, done: "MIG configuration applied successfully", request: func(gpus []mig.GPU) (apply.Request, error, error) {
		s, err := choose(config, name, gpus, log)
		return apply.Request{Desired: s.Want, SkipReset: c.Bool("skip-reset")}, unreadable(s.Faulty), err
	}}.run(c, env)
}

func restoreCommand() *cli.Command {
	flags := []cli.Flag{
		checkpointFlag("`FILE` with the checkpoint; - for standard input"),
		modeFlag("restore only the MIG mode, and make no MIG devices"),
	}
	return &cli.Command{
		Name: "restore", Usage: "bring the GPUs to the MIG modes and layouts of a checkpoint, each instance at its place",
		Flags: append(flags, hookFlags()...), Action: action(restore),
	}
}

func restore(c *cli.Context, log *slog.Logger) error {
	file, data, err := readFile(c, "checkpoint-file")
	if err != nil {
		return err
	}
	saved, err := migconfig.ReadCheckpoint(file, data)
	if err != nil {
		return err
	}
	env := map[string]string{"MIG_PARTED_CHECKPOINT_FILE": c.Path("checkpoint-file")}
	return change{log: log, done: "MIG configuration restored successfully", request: func(gpus []mig.GPU) (apply.Request, error, error) {
		req := apply.Request{Desired: map[gpu.UUID]mig.Desired{}, Layouts: map[gpu.UUID]mig.Layout{}}
		states, err := saved.States(gpus)
		for id, s := range states {
			req.Desired[id] = mig.Desired{Enabled: s.Enabled, Devices: s.Layout.Devices()}
			req.Layouts[id] = s.Layout
		}
		return req, nil, err
	}}.run(c, env)
}
