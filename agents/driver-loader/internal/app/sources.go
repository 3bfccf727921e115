package app

import (
	"fmt"

	"github.com/urfave/cli/v2"

	"outrigger.dev/agents/driver-loader/internal/optional"
	"outrigger.dev/pkg/cause"
	"outrigger.dev/pkg/cmdline"
)

// sourcesCommand returns the command for a container in an image of GPUDirect Storage or GDRCopy. Unlike
// import, it does not look for a driver: engines can add libraries of the driver to a container.
func (s *settings) sourcesCommand() *cli.Command {
	var stay bool
	return &cli.Command{
		Name: "import-sources", Usage: "copy the sources of nvidia_fs and gdrdrv into the store, from the root of an image or one folder", ArgsUsage: "PATH",
		Flags: []cli.Flag{&cli.BoolFlag{
			Name: "stay", EnvVars: []string{"STAY"}, Destination: &stay,
			Usage: "keep running after that, as a container of the agent's pod",
		}},
		Action: s.action(func(c *cli.Context) error { return s.importSources(c, stay) }),
	}
}

func (s *settings) importSources(c *cli.Context, stay bool) error {
	from := c.Args().First()
	if c.Args().Len() != 1 {
		return cmdline.Usagef("import-sources needs one PATH: the root of an image, or a folder with sources")
	}
	sources, err := optional.Import(c.Context, s.config.Store, from)
	if err != nil {
		return err
	}
	if len(sources) == 0 {
		return cause.Cause{
			Code: cause.PayloadMissing, Subject: from, Text: "it has no sources of nvidia_fs or gdrdrv in usr/src",
			Fix: "use NVIDIA's image of nvidia-fs or gdrdrv, or a folder such as /usr/src/gdrdrv-2.5",
		}
	}
	if err := printSources(c, sources); err != nil || !stay {
		return err
	}
	<-c.Context.Done()
	return nil
}

func printSources(c *cli.Context, sources []optional.Source) error {
	for _, source := range sources {
		if _, err := fmt.Fprintf(c.App.Writer, "%s %s %s\n", source.Module, source.Version, source.Dir); err != nil {
			return err
		}
	}
	return nil
}
