package program

import (
	"fmt"

	"github.com/urfave/cli/v2"

	"outrigger.dev/pkg/completion"
)

// scripts returns the command that prints the completion scripts of a program.
func scripts(program string) *cli.Command {
	cmd := &cli.Command{
		Name:        "completion",
		Usage:       "print a script that completes commands and flags in a shell",
		Description: completion.Hint(program),
	}
	for _, shell := range completion.Shells() {
		cmd.Subcommands = append(cmd.Subcommands, &cli.Command{
			Name: shell, Usage: "print the completion script for " + shell,
			Action: func(c *cli.Context) error {
				script, _ := completion.Script(shell, program)
				_, err := fmt.Fprint(c.App.Writer, script)
				return err
			},
		})
	}
	return cmd
}
