package program

import (
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"
)

// helpCommand returns the command help of the command path, which has the subcommands that
// commands returns. Unlike the library's, it takes the words of a whole path, and rejects
// those that are no command.
func helpCommand(app, path string, commands func() []*cli.Command) *cli.Command {
	return &cli.Command{
		Name: "help", Aliases: []string{"h"}, Usage: "print the commands, or the help of one", ArgsUsage: "[COMMAND…]",
		HideHelpCommand: true,
		Action: func(c *cli.Context) error {
			above, at := &cli.Command{Subcommands: commands()}, path
			words := c.Args().Slice()
			for i, word := range words {
				cmd := above.Command(word)
				if cmd == nil {
					return wrong(app, at, fmt.Errorf("unknown command %q", word))
				}
				if i == len(words)-1 {
					return show(c, above, word)
				}
				above, at = cmd, strings.TrimSpace(at+" "+word)
			}
			if path == "" {
				return cli.ShowAppHelp(c)
			}
			return cli.ShowSubcommandHelp(c.Lineage()[1])
		},
	}
}

// show prints the help of a command below the command above.
func show(c *cli.Context, above *cli.Command, name string) error {
	ctx := cli.NewContext(c.App, nil, nil)
	ctx.Command = above
	return cli.ShowCommandHelp(ctx, name)
}
