// Package ctk is the command line of nvidia-ctk. It has the commands, flags and variables of
// NVIDIA's nvidia-ctk. Each command has its own file.
package ctk

import (
	"context"
	"io"

	"github.com/urfave/cli/v2"

	"outrigger.dev/pkg/cmdline"
)

// Main runs nvidia-ctk. args[0] is the name of the program. Main returns the exit code.
func Main(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	p := &program{stdin: stdin, stdout: stdout, stderr: stderr}
	return cmdline.Exec(context.Background(), p.app(), args)
}

// program has the state that all commands share: the files of the process, and the values of the
// global flags.
type program struct {
	stdin          io.Reader
	stdout, stderr io.Writer

	debug, quiet bool
	// config is the config file of the tools. If it is empty, the tools search for the file.
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
