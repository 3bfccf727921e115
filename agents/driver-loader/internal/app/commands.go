package app

import (
	"errors"
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"outrigger.dev/agents/driver-loader/internal/loader"
	"outrigger.dev/agents/driver-loader/internal/progress"
	"outrigger.dev/pkg/agent"
)

func commands() []*cli.Command {
	return []*cli.Command{
		{
			Name: "plan", Usage: "check the node, and say what the agent would do next and what is in its way; changes nothing",
			Flags: []cli.Flag{
				&cli.StringFlag{Name: "output", EnvVars: []string{"PLAN_OUTPUT"}, Value: "text", Usage: "`FORMAT` of the output, also as -o: text or json"},
				// The chassis allows a flag one name.
				&cli.StringFlag{Name: "o", EnvVars: []string{"PLAN_O"}, Value: "text", Hidden: true},
			},
			Action: with(plan),
		},
		{
			Name: "import", Usage: "copy a driver into the store, and print its version", ArgsUsage: "PATH",
			Action: with(importPayload),
		},
		{
			Name: "build", Usage: "build the modules of the driver into the store, also for a kernel that is not running",
			Flags:  []cli.Flag{sourceFlag(), &cli.StringFlag{Name: "kernel", EnvVars: []string{"KERNEL_VERSION"}, Usage: "`RELEASE` of the kernel, as uname -r; empty for the running one"}},
			Action: with(fromSource(buildModules)),
		},
		{
			Name: "load", Usage: "do what the agent would do, once: build, load, replace; fails if something is in the way",
			Flags:  []cli.Flag{sourceFlag()},
			Action: with(fromSource(load)),
		},
		{
			Name: "unload", Usage: "unload the driver from the kernel, if nothing uses it; names what does",
			Action: with(unload),
		},
		{
			Name: "install", Usage: "copy this program and driver-loader-drain into a folder, for a container of the driver's image", ArgsUsage: "DIR",
			Action: install,
		},
	}
}

// with gives a command its settings.
func with(run func(c *cli.Context, s settings) error) cli.ActionFunc {
	return func(c *cli.Context) error {
		log, err := agent.Logger(c)
		if err != nil {
			return err
		}
		s, err := read(c, log)
		if err != nil {
			return err
		}
		s.config.Builder.Progress = progress.Log(log, "building")
		return run(c, s)
	}
}

func sourceFlag() cli.Flag {
	return &cli.PathFlag{
		Name: "source", EnvVars: []string{"DRIVER_SOURCE"},
		Usage: "`DIR` with NVIDIA's sources, or another driver, to import first; its version is the one to take",
	}
}

// fromSource imports the driver of --source before a command, which then takes that one.
func fromSource(run func(c *cli.Context, s settings) error) func(c *cli.Context, s settings) error {
	return func(c *cli.Context, s settings) error {
		from := c.Path("source")
		if from == "" {
			return run(c, s)
		}
		p, err := s.store().Import(c.Context, from)
		if err != nil {
			return err
		}
		if set := s.desired.Version; set != "" && set != p.Version {
			return agent.Usagef("--source %s has driver %s, and --driver-version is %s: set only one of them", from, p.Version, set)
		}
		s.desired.Version = p.Version
		s.config.Desired = s.observeDesired
		return run(c, s)
	}
}

func importPayload(c *cli.Context, s settings) error {
	from := s.payload
	if c.Args().Len() > 0 {
		from = c.Args().First()
	}
	if from == "" || c.Args().Len() > 1 {
		return agent.Usagef("import needs one PATH: a .run archive, a folder with its content, the root of a driver image, or NVIDIA's sources")
	}
	store := s.store()
	store.Progress = progress.Log(s.config.Log, "importing")
	p, err := store.Import(c.Context, from)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(c.App.Writer, "%s %s\n", p.Version, p.Dir)
	return err
}

func buildModules(c *cli.Context, s settings) error {
	l := loader.New(s.config, s.machine)
	set, err := l.Build(c.Context, c.String("kernel"))
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

func load(c *cli.Context, s settings) error {
	step := loader.New(s.config, s.machine).Settle(c.Context)
	if err := printStep(c.App.Writer, step); err != nil {
		return err
	}
	if step.Kind != loader.Done || len(step.Causes) > 0 {
		return errors.New("the desired driver is not loaded")
	}
	return nil
}

func unload(c *cli.Context, s settings) error {
	done, err := loader.New(s.config, s.machine).Unload(c.Context)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(c.App.Writer, "unloaded: %s\n", strings.Join(done, " "))
	return err
}
