package ctk

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"outrigger.dev/agents/container-toolkit/internal/engine"
	"outrigger.dev/pkg/cmdline"
)

// runtimeCommand returns the commands that change the configs of container engines.
func (p *program) runtimeCommand() *cli.Command {
	r := &runtime{program: p, cfg: engine.Config{Recognize: true}}
	return &cli.Command{
		Name:  "runtime",
		Usage: "register the NVIDIA runtime with a container engine",
		Subcommands: []*cli.Command{
			{
				Name:   "configure",
				Usage:  "add the NVIDIA runtime to the config of a container engine, without changing anything else",
				Flags:  append(r.flags(), r.configureFlags()...),
				Action: r.configure,
			},
			{
				Name:   "unconfigure",
				Usage:  "revert the changes of configure or of the container toolkit's agent, byte for byte; without --runtime and --config, for all engines",
				Flags:  r.flags(),
				Action: r.unconfigure,
			},
		},
	}
}

// runtime changes the config of an engine. Its fields are the values of the flags.
type runtime struct {
	*program

	cfg engine.Config
	dry bool
}

// flags returns the flags that both commands share. They select the config and the runtime.
func (r *runtime) flags() []cli.Flag {
	cfg := &r.cfg
	return []cli.Flag{
		&cli.BoolFlag{Name: "dry-run", Destination: &r.dry, Usage: "print the changes as a diff, and write nothing"},
		&cli.StringFlag{Name: "runtime", Value: "docker", Destination: (*string)(&cfg.Engine), Usage: "container `ENGINE`: docker, containerd or crio"},
		&cli.PathFlag{
			Name: "config", Destination: &cfg.ConfigPath,
			Usage: "config `FILE` of the engine; if empty, the file of the running engine, or /etc/docker/daemon.json, /etc/containerd/config.toml, /etc/crio/crio.conf",
		},
		&cli.PathFlag{
			Name: "drop-in-config", Destination: &cfg.DropIn,
			Usage: "drop-in `FILE` for the runtime; if empty, /etc/containerd/conf.d/99-nvidia.toml or /etc/crio/crio.conf.d/99-nvidia.toml",
		},
		&cli.PathFlag{
			Name: "executable-path", Destination: &cfg.Executable,
			Usage: "program `FILE` of the engine, which checks the config; if empty, the program of the running engine",
		},
		&cli.StringFlag{Name: "nvidia-runtime-name", Value: "nvidia", Destination: &cfg.RuntimeName, Usage: "`NAME` of the runtime"},
		&cli.PathFlag{Name: "nvidia-runtime-path", Aliases: []string{"runtime-path"}, Value: "/usr/bin/nvidia-container-runtime", Destination: &cfg.RuntimePath, Usage: "program `FILE` of the runtime"},
	}
}

func (r *runtime) configureFlags() []cli.Flag {
	unsupported := func(name string) cli.Flag {
		return cmdline.Check(&cli.PathFlag{Name: name, Usage: "not supported: see config-mode"},
			"empty: it is not supported, the runtime finds its hook itself", func(v string) bool { return v == "" })
	}
	return []cli.Flag{
		&cli.BoolFlag{Name: "nvidia-set-as-default", Aliases: []string{"set-as-default"}, Destination: &r.cfg.SetAsDefault, Usage: "make this runtime the default runtime"},
		&cli.BoolFlag{Name: "cdi.enabled", Aliases: []string{"cdi.enable", "enable-cdi"}, Destination: &r.cfg.CDI, Usage: "enable CDI in the engine (docker, containerd)"},
		cmdline.Enum(&cli.StringFlag{Name: "config-mode", Value: "config-file", Usage: "`MODE`: config-file; oci-hook is not supported"}, "config-file", "config"),
		&cli.StringFlag{Name: "config-source", Value: "file", Usage: "no effect: the program always reads the settings from the engine's files"},
		unsupported("oci-hook-path"), unsupported("nvidia-runtime-hook-path"),
	}
}

// engine returns the engine that the flag --runtime names.
func (r *runtime) engine() engine.Name {
	if r.cfg.Engine == "cri-o" {
		return engine.CRIO
	}
	return r.cfg.Engine
}

// changedEngines returns the engines whose config unconfigure restores: the engine that a flag
// names, or all engines with a recorded change.
func (r *runtime) changedEngines(c *cli.Context) ([]engine.Name, error) {
	if c.IsSet("runtime") || r.cfg.ConfigPath != "" {
		return []engine.Name{r.engine()}, nil
	}
	names, err := engine.Recorded(engine.Config{Records: recordFolder()})
	if len(names) == 0 {
		names = []engine.Name{r.engine()}
	}
	return names, err
}

// recordFolder returns the folder of the records for a user other than root, who changes the
// config of a rootless Docker. For root, it returns "", which means the default folder.
func recordFolder() string {
	home, err := os.UserHomeDir()
	if os.Geteuid() == 0 || err != nil {
		return ""
	}
	state := os.Getenv("XDG_STATE_HOME")
	if !filepath.IsAbs(state) {
		state = filepath.Join(home, ".local/state")
	}
	return filepath.Join(state, "nvidia-container-toolkit/engine")
}

// keeper returns the Keeper of an engine.
func (r *runtime) keeper(name engine.Name) (*engine.Keeper, error) {
	level := slog.LevelWarn
	if r.debug {
		level = slog.LevelDebug
	}
	cfg := r.cfg
	cfg.Engine, cfg.Records = name, recordFolder()
	return engine.New(cfg, slog.New(slog.NewTextHandler(r.stderr, &slog.HandlerOptions{Level: level})))
}

func (r *runtime) configure(c *cli.Context) error {
	k, err := r.keeper(r.engine())
	if err != nil {
		return err
	}
	return r.change(c.Context, k.Plan, k.Apply)
}

func (r *runtime) unconfigure(c *cli.Context) error {
	names, err := r.changedEngines(c)
	errs := []error{err}
	for _, name := range names {
		k, err := r.keeper(name)
		if err == nil {
			err = r.change(c.Context, k.UndoPlan, k.Undo)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// lowLevelNotes returns a note if nvidia-container-runtime prefers another program than the
// engine's default runtime has. The note has the command that makes it use the same program.
func (r *runtime) lowLevelNotes(p engine.Plan) []string {
	if p.LowLevel == "" {
		return nil
	}
	cfg, err := r.loadConfig()
	if err != nil || cfg.Runtime.Runtimes[0] == p.LowLevel {
		return nil // nvidia-container-runtime reports the error
	}
	others := slices.DeleteFunc(cfg.Runtime.Runtimes, func(name string) bool { return name == p.LowLevel })
	list := strings.Join(append([]string{p.LowLevel}, others...), ",")
	return []string{fmt.Sprintf("%s runs containers with %s, and nvidia-container-runtime prefers %s: to use the same program, run nvidia-ctk config --in-place --set nvidia-container-runtime.runtimes=%s",
		p.Engine, p.LowLevel, others[0], list)}
}

// change applies a change, or only plans it. It prints the changes and the next step.
func (r *runtime) change(ctx context.Context, plan, apply func(context.Context) (engine.Plan, error)) error {
	do, did := apply, "changed"
	if r.dry {
		do, did = plan, "would change"
	}
	p, err := do(ctx)
	if err != nil || r.quiet {
		return err
	}
	if r.dry {
		fmt.Fprint(r.stdout, p.Diff())
	}
	for _, note := range append(p.Notes, r.lowLevelNotes(p)...) {
		fmt.Fprintln(r.stdout, "note:", note)
	}
	if p.Empty() {
		_, err := fmt.Fprintf(r.stdout, "%s: nothing to change\n", p.Engine)
		return err
	}
	for _, change := range p.Changes {
		fmt.Fprintf(r.stdout, "%s %s\n", did, change.Path)
	}
	_, err = fmt.Fprintf(r.stdout, "next: %s\n", p.Advice())
	return err
}
