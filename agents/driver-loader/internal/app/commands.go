package app

import (
	"context"
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"outrigger.dev/agents/driver-loader/internal/loader"
	"outrigger.dev/agents/driver-loader/internal/progress"
	"outrigger.dev/pkg/agent"
	"outrigger.dev/pkg/cmdline"
)

func (s *settings) commands() []*cli.Command {
	var output, release, source string
	return []*cli.Command{
		{
			Name: "plan", Usage: "check the node, and print the next step of the agent and all problems; changes nothing",
			Flags: []cli.Flag{cmdline.Enum(&cli.StringFlag{
				Name: "output", Aliases: []string{"o"}, EnvVars: []string{"PLAN_OUTPUT"}, Value: "text", Destination: &output,
				Usage: "`FORMAT` of the output: text or json",
			}, "text", "json")},
			Action: s.action(func(c *cli.Context) error { return s.plan(c, output) }),
		},
		{
			Name: "import", Usage: "copy a driver into the store, and print its version", ArgsUsage: "PATH",
			Action: s.action(s.importArgument),
		},
		s.sourcesCommand(),
		{
			Name: "build", Usage: "build the kernel modules of the driver, for the running or another kernel, and put them into the store",
			Flags: []cli.Flag{sourceFlag(&source), &cli.StringFlag{
				Name: "kernel", EnvVars: []string{"KERNEL_VERSION"}, Destination: &release,
				Usage: "`RELEASE` of the kernel, as printed by uname -r; if empty, the running kernel",
			}},
			Action: s.action(func(c *cli.Context) error {
				if err := s.importSource(c.Context, source); err != nil {
					return err
				}
				return s.build(c, release)
			}),
		},
		{
			Name: "load", Usage: "build and load the driver once, or replace the loaded driver; fails if that is not possible now",
			Flags: []cli.Flag{sourceFlag(&source)},
			Action: s.action(func(c *cli.Context) error {
				if err := s.importSource(c.Context, source); err != nil {
					return err
				}
				return s.load(c)
			}),
		},
		{
			Name: "unload", Usage: "unload the driver from the kernel, or print the processes that use it",
			Action: s.action(s.unload),
		},
		{
			Name: "install", Usage: "copy this program into a folder, for a container of the driver's image", ArgsUsage: "DIR",
			Action: install,
		},
	}
}

// action returns an action that completes the settings, and then runs a command.
func (s *settings) action(run cli.ActionFunc) cli.ActionFunc {
	return func(c *cli.Context) error {
		log := agent.Logger(c)
		if err := s.complete(log); err != nil {
			return err
		}
		s.config.Builder.Progress = progress.Log(log, "building")
		return run(c)
	}
}

func sourceFlag(source *string) cli.Flag {
	return &cli.PathFlag{
		Name: "source", EnvVars: []string{"DRIVER_SOURCE"}, Destination: source,
		Usage: "`DIR` with NVIDIA's sources, or another driver, to import first and to use",
	}
}

// importSource imports the driver of --source, if that is set. It makes this driver the desired one.
func (s *settings) importSource(ctx context.Context, from string) error {
	if from == "" {
		return nil
	}
	p, err := s.store().Import(ctx, from)
	if err != nil {
		return err
	}
	if set := s.desired.Version; set != "" && set != p.Version {
		return cmdline.Usagef("flag --source: %s has driver %s, but --driver-version is %s: set only one of them", from, p.Version, set)
	}
	s.desired.Version, s.desired.Payload = p.Version, p.Digest
	return nil
}

func (s *settings) importArgument(c *cli.Context) error {
	from := s.payload
	if c.Args().Len() > 0 {
		from = c.Args().First()
	}
	if from == "" || c.Args().Len() > 1 {
		return cmdline.Usagef("import needs one PATH: a .run archive, a folder with its content, the root of a driver image, or NVIDIA's sources")
	}
	store := s.store()
	store.Progress = progress.Log(s.config.Log, "importing")
	p, sources, err := s.importAll(c.Context, store, from)
	if err != nil {
		return err
	}
	if err := printSources(c, sources); err != nil || p.Version == "" {
		return err
	}
	_, err = fmt.Fprintf(c.App.Writer, "%s %s\n", p.Version, p.Dir)
	return err
}

func (s *settings) build(c *cli.Context, release string) error {
	set, err := loader.New(s.config, s.machine).Build(c.Context, release)
	if err != nil {
		return err
	}
	var names []string
	for _, m := range set.Modules {
		names = append(names, m.Name)
	}
	_, err = fmt.Fprintf(c.App.Writer, "%s: %s\n", set.Dir, strings.Join(names, " "))
	return err
}

func (s *settings) load(c *cli.Context) error {
	step := loader.New(s.config, s.machine).Settle(c.Context)
	if c.Context.Err() != nil {
		return c.Context.Err()
	}
	if err := printCauses(c.App.Writer, step, "; fix: "); err != nil {
		return err
	}
	if len(step.Causes) > 0 {
		return fmt.Errorf("the desired driver is not loaded: %w", step.Causes[0])
	}
	if step.Kind != loader.Done {
		return fmt.Errorf("the desired driver is not loaded: the next step is: %s; run the command again", step)
	}
	_, err := fmt.Fprintln(c.App.Writer, step)
	return err
}

func (s *settings) unload(c *cli.Context) error {
	done, err := loader.New(s.config, s.machine).Unload(c.Context)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(c.App.Writer, "unloaded: %s\n", strings.Join(done, " "))
	return err
}
