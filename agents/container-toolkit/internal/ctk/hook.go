package ctk

import (
	"io"

	"outrigger.dev/agents/container-toolkit/internal/cdihook"
	"outrigger.dev/pkg/command"
)

// hookCommand runs the hooks of nvidia-cdi-hook: specs of older versions of NVIDIA's
// toolkit name nvidia-ctk.
func hookCommand(stdin io.Reader, stdout, stderr io.Writer) *command.Command {
	return &command.Command{
		Name:            "hook",
		Usage:           "run a hook of nvidia-cdi-hook; see \"nvidia-ctk hook --help\"",
		ArgsUsage:       "HOOK [FLAGS]",
		SkipFlagParsing: true,
		Action: func(c *command.Context) error {
			if err := cdihook.Confine(); err != nil {
				return err
			}
			if code := cdihook.Main("nvidia-ctk hook", c.Args(), stdin, stdout, stderr); code != 0 {
				return exitCode(code)
			}
			return nil
		},
	}
}
