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
	p := &program{stdin: stdin, stdout: stdout, stderr: stderr}
	return cmdline.Exec(context.Background(), p.app(), args)
}

// program is what all commands have: the files of the process, and what the flags of nvidia-ctk
// itself set.
type program struct {
	stdin          io.Reader
	stdout, stderr io.Writer

	debug, quiet bool
	// config is the config file of the tools, empty for the one that they find.
	config string
}

func (p *program) app() *cli.App {
	return &cli.App{
		Name:  "nvidia-ctk",
		Usage: "configure container runtimes for NVIDIA GPUs, and generate CDI specs",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "debug", Aliases: []string{"d"}, EnvVars: []string{"NVIDIA_CTK_DEBUG"}, Destination: &p.debug, Usage: "log more"},
			&cli.BoolFlag{Name: "quiet", EnvVars: []string{"NVIDIA_CTK_QUIET"}, Destination: &p.quiet, Usage: "log errors only"},
			&cli.StringFlag{
				Name: "config", EnvVars: []string{"NVIDIA_CTK_CONFIG", "NVIDIA_CTK_CONFIG_FILE_PATH"}, Destination: &p.config,
				Usage: "config `FILE` of the tools (config.toml)",
			},
		},
		Writer:    p.stdout,
		ErrWriter: p.stderr,
		Commands: []*cli.Command{
			p.hookCommand(), p.cdiCommand(), p.configCommand(), p.explainCommand(), p.infoCommand(), p.systemCommand(), p.runtimeCommand(),
		},
	}
}
