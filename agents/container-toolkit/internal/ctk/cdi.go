package ctk

import (
	"io"

	"outrigger.dev/pkg/command"
)

// cdiCommand returns "nvidia-ctk cdi".
func cdiCommand(stdin io.Reader, stdout, stderr io.Writer) *command.Command {
	return &command.Command{
		Name:        "cdi",
		Usage:       "generate, list and change CDI specs",
		Subcommands: []*command.Command{generateCommand(stdout, stderr), listCommand(stdout, stderr), transformCommand(stdin, stdout)},
	}
}
