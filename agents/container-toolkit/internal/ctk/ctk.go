// Package ctk is the command line of nvidia-ctk. Each command is in a file of its
// own; the commands, their flags and their variables are those of NVIDIA's nvidia-ctk.
package ctk

import (
	"context"
	"errors"
	"fmt"
	"io"

	"outrigger.dev/pkg/command"
)

// Main runs nvidia-ctk with the arguments args, of which the first is the name of the
// program. It returns the exit code.
func Main(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	err := command.Run(context.Background(), newProgram(stdin, stdout, stderr), args, stdout)
	if code, ok := errors.AsType[exitCode](err); ok {
		return int(code)
	}
	if err != nil {
		fmt.Fprintln(stderr, "nvidia-ctk:", err)
		return 1
	}
	return 0
}

// exitCode is the error of a command that has said what is wrong.
type exitCode int

func (c exitCode) Error() string { return fmt.Sprintf("exit code %d", int(c)) }

func newProgram(stdin io.Reader, stdout, stderr io.Writer) *command.Command {
	return &command.Command{
		Name:  "nvidia-ctk",
		Usage: "configure container runtimes for NVIDIA GPUs, and generate CDI specs",
		Flags: []command.Flag{
			&command.BoolFlag{Name: "debug", Aliases: []string{"d"}, EnvVars: []string{"NVIDIA_CTK_DEBUG"}, Usage: "log more"},
			&command.BoolFlag{Name: "quiet", EnvVars: []string{"NVIDIA_CTK_QUIET"}, Usage: "log errors only"},
			&command.StringFlag{Name: "config", EnvVars: []string{"NVIDIA_CTK_CONFIG", "NVIDIA_CTK_CONFIG_FILE_PATH"}, Usage: "config `FILE` of the tools (config.toml)"},
		},
		Subcommands: []*command.Command{
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
