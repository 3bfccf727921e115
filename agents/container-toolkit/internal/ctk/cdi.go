package ctk

import (
	"io"

	"github.com/urfave/cli/v2"
)

// cdiCommand returns "nvidia-ctk cdi".
func cdiCommand(stdin io.Reader, stdout, stderr io.Writer) *cli.Command {
	return &cli.Command{
		Name:        "cdi",
		Usage:       "generate, list and change CDI specs",
		Subcommands: []*cli.Command{generateCommand(stdout, stderr), listCommand(stdout, stderr), transformCommand(stdin, stdout)},
	}
}
