package ctk

import (
	"errors"
	"fmt"
	"io"
	"log/slog"

	"github.com/urfave/cli/v2"

	"outrigger.dev/agents/container-toolkit/internal/engine"
)

// runtimeCommand returns the commands that change the configs of container engines.
func runtimeCommand(stdout, stderr io.Writer) *cli.Command {
	return &cli.Command{
		Name:  "runtime",
		Usage: "register the NVIDIA runtime with a container engine",
		Subcommands: []*cli.Command{
			{
				Name:   "configure",
				Usage:  "add the NVIDIA runtime to the config of a container engine, and keep everything else",
				Flags:  append(engineFlags(), configureFlags()...),
				Action: func(c *cli.Context) error { return configure(c, stdout, stderr) },
			},
			{
				Name:   "unconfigure",
				Usage:  "take back byte for byte what configure did, or the container toolkit's agent; without --runtime and --config for all engines",
				Flags:  append(engineFlags(), runtimeFlags()...),
				Action: func(c *cli.Context) error { return unconfigure(c, stdout, stderr) },
			},
		},
	}
}

// engineFlags are the flags that say which config.
func engineFlags() []cli.Flag {
	return []cli.Flag{
		&cli.BoolFlag{Name: "dry-run", Usage: "print the changes as a diff, and write nothing"},
		&cli.StringFlag{Name: "runtime", Value: "docker", Usage: "container `ENGINE`: docker, containerd or crio"},
		&cli.PathFlag{Name: "config", Usage: "config `FILE` of the engine; if it is empty, that of the running engine, or /etc/docker/daemon.json, /etc/containerd/config.toml, /etc/crio/crio.conf"},
		&cli.PathFlag{Name: "drop-in-config", Usage: "drop-in `FILE` for the runtime; if it is empty, /etc/containerd/conf.d/99-nvidia.toml or /etc/crio/crio.conf.d/99-nvidia.toml"},
		&cli.PathFlag{Name: "executable-path", Usage: "program `FILE` of the engine, with which the config is checked; if it is empty, that of the running engine"},
	}
}

// runtimeFlags are the flags that say what the runtime is.
func runtimeFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "nvidia-runtime-name", Value: "nvidia", Usage: "`NAME` of the runtime"},
		&cli.PathFlag{Name: "nvidia-runtime-path", Value: "/usr/bin/nvidia-container-runtime", Usage: "program `FILE` of the runtime"},
	}
}

func configureFlags() []cli.Flag {
	return append(runtimeFlags(),
		&cli.BoolFlag{Name: "nvidia-set-as-default", Aliases: []string{"set-as-default"}, Usage: "make it the default runtime"},
		&cli.BoolFlag{Name: "cdi.enabled", Aliases: []string{"cdi.enable", "enable-cdi"}, Usage: "turn CDI on in the engine (docker, containerd)"},
		&cli.StringFlag{Name: "config-mode", Value: "config-file", Usage: "`MODE`: config-file; oci-hook is not supported"},
		&cli.StringFlag{Name: "config-source", Value: "file", Usage: "accepted for compatibility: settings are always read from the engine's files"},
		&cli.PathFlag{Name: "oci-hook-path", Usage: "not supported: see config-mode"},
		&cli.PathFlag{Name: "nvidia-runtime-hook-path", Usage: "not supported: see config-mode"},
	)
}

// engineOf returns the engine that a flag names.
func engineOf(c *cli.Context) engine.Name {
	if name := c.String("runtime"); name != "cri-o" {
		return engine.Name(name)
	}
	return engine.CRIO
}

// changedEngines returns the engines whose config is to be taken back: the one that a flag
// names, else all of which a change is recorded.
func changedEngines(c *cli.Context) ([]engine.Name, error) {
	if c.IsSet("runtime") || c.IsSet("config") {
		return []engine.Name{engineOf(c)}, nil
	}
	names, err := engine.Recorded(engine.Config{})
	if len(names) == 0 {
		names = []engine.Name{engineOf(c)}
	}
	return names, err
}

// keeperOf returns the Keeper of an engine that the flags describe.
func keeperOf(c *cli.Context, name engine.Name, stderr io.Writer) (*engine.Keeper, error) {
	level := slog.LevelWarn
	if c.Bool("debug") {
		level = slog.LevelDebug
	}
	log := slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: level}))
	return engine.New(engine.Config{
		Engine:       name,
		ConfigPath:   c.Path("config"),
		DropIn:       c.Path("drop-in-config"),
		Executable:   c.Path("executable-path"),
		RuntimeName:  c.String("nvidia-runtime-name"),
		RuntimePath:  c.Path("nvidia-runtime-path"),
		SetAsDefault: c.Bool("nvidia-set-as-default"),
		CDI:          c.Bool("cdi.enabled"),
		Recognize:    true,
	}, log)
}

func configure(c *cli.Context, stdout, stderr io.Writer) error {
	switch c.String("config-mode") {
	case "config-file", "config":
	default:
		return fmt.Errorf("--config-mode=%s is not supported: use --config-mode=config-file", c.String("config-mode"))
	}
	for _, flag := range []string{"oci-hook-path", "nvidia-runtime-hook-path"} {
		if c.IsSet(flag) {
			return fmt.Errorf("--%s is not supported: remove it; the runtime finds its hook itself", flag)
		}
	}
	k, err := keeperOf(c, engineOf(c), stderr)
	if err != nil {
		return err
	}
	if c.Bool("dry-run") {
		p, err := k.Plan(c.Context)
		return printPlan(c, stdout, p, err, "would change")
	}
	p, err := k.Apply(c.Context)
	return printPlan(c, stdout, p, err, "changed")
}

func unconfigure(c *cli.Context, stdout, stderr io.Writer) error {
	names, err := changedEngines(c)
	errs := []error{err}
	for _, name := range names {
		errs = append(errs, unconfigureOne(c, name, stdout, stderr))
	}
	return errors.Join(errs...)
}

func unconfigureOne(c *cli.Context, name engine.Name, stdout, stderr io.Writer) error {
	k, err := keeperOf(c, name, stderr)
	if err != nil {
		return err
	}
	if c.Bool("dry-run") {
		p, err := k.UndoPlan(c.Context)
		return printPlan(c, stdout, p, err, "would change")
	}
	p, err := k.Undo(c.Context)
	return printPlan(c, stdout, p, err, "changed")
}

// printPlan prints what was or would be written, and what to do next.
func printPlan(c *cli.Context, stdout io.Writer, p engine.Plan, err error, did string) error {
	if err != nil || c.Bool("quiet") {
		return err
	}
	if c.Bool("dry-run") {
		fmt.Fprint(stdout, p.Diff())
	}
	for _, note := range p.Notes {
		fmt.Fprintln(stdout, "note:", note)
	}
	if p.Empty() {
		_, err := fmt.Fprintf(stdout, "%s: nothing to change\n", p.Engine)
		return err
	}
	for _, change := range p.Changes {
		fmt.Fprintf(stdout, "%s %s\n", did, change.Path)
	}
	_, err = fmt.Fprintf(stdout, "next: %s\n", p.Advice())
	return err
}
