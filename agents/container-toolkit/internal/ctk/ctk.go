// Package ctk is the command line of nvidia-ctk. Each command is in a file of its
// own; the commands, their flags and their variables are those of NVIDIA's nvidia-ctk.
package ctk

import (
	"context"
	"io"

	"github.com/urfave/cli/v2"

	"outrigger.dev/pkg/cmdline"
)

// Main runs nvidia-ctk with the arguments args, of which the first is the name of the
// program. It returns the exit code.
func Main(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	return cmdline.Exec(context.Background(), newProgram(stdin, stdout, stderr), args)
}

func newProgram(stdin io.Reader, stdout, stderr io.Writer) *cli.App {
	return &cli.App{
		Name:  "nvidia-ctk",
		Usage: "configure container runtimes for NVIDIA GPUs, and generate CDI specs",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "debug", Aliases: []string{"d"}, EnvVars: []string{"NVIDIA_CTK_DEBUG"}, Usage: "log more"},
			&cli.BoolFlag{Name: "quiet", EnvVars: []string{"NVIDIA_CTK_QUIET"}, Usage: "log errors only"},
			&cli.StringFlag{Name: "config", EnvVars: []string{"NVIDIA_CTK_CONFIG", "NVIDIA_CTK_CONFIG_FILE_PATH"}, Usage: "config `FILE` of the tools (config.toml)"},
		},
		Writer:    stdout,
		ErrWriter: stderr,
		Commands: []*cli.Command{
			hookCommand(stdin, stdout, stderr),
			cdiCommand(stdin, stdout, stderr),
			configCommand(stdout),
			explainCommand(stdout, stderr),
			infoCommand(stdout, stderr),
			systemCommand(stdout),
			runtimeCommand(stdout, stderr),
		},
	}
}
