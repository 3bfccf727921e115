package ctk

import (
	"github.com/urfave/cli/v2"

	"outrigger.dev/agents/container-toolkit/internal/cdihook"
)

// hookCommand runs the hooks of nvidia-cdi-hook. Specs of older versions of NVIDIA's toolkit name
// nvidia-ctk as the hook.
func (p *program) hookCommand() *cli.Command {
	return &cli.Command{
		Name:            "hook",
		Usage:           "run a hook of nvidia-cdi-hook; see \"nvidia-ctk hook --help\"",
		ArgsUsage:       "HOOK [FLAGS]",
		SkipFlagParsing: true,
		Action: func(c *cli.Context) error {
			if err := cdihook.Confine(); err != nil {
				return err
			}
			if code := cdihook.Main("nvidia-ctk hook", c.Args().Slice(), p.stdin, p.stdout, p.stderr); code != 0 {
				return cli.Exit("", code)
			}
			return nil
		},
	}
}
