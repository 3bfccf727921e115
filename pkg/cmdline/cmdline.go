// Package cmdline adds to urfave/cli what the command lines of this repository promise and
// the library lacks: errors of one line that name the flag and its environment variable, exit
// codes, rejected arguments, options on either side of a command, flags that check their
// values, and scripts for the completion of shells.
package cmdline

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"outrigger.dev/pkg/version"
)

// Exec runs a tool with args, the first of which is its name, and prints an error in one
// line. It returns the exit code.
func Exec(ctx context.Context, app *cli.App, args []string) int {
	err := Run(ctx, app, args)
	if exit, ok := errors.AsType[*ExitError](err); err != nil && !(ok && exit.Err == nil) {
		_, _ = fmt.Fprintf(app.ErrWriter, "%s: %s\n", app.Name, OneLine(err))
	}
	return Code(err, 1)
}

// Run completes app and runs it once. Options of the app may stand on either side of a
// command. A command without ArgsUsage rejects arguments. Run prints no error, and leaves the
// end of the process to its caller.
func Run(ctx context.Context, app *cli.App, args []string) error {
	var missing error
	app.CommandNotFound = func(c *cli.Context, name string) { missing = wrong(c, fmt.Errorf("unknown command %q", name)) }
	app.ExitErrHandler = func(*cli.Context, error) {}
	app.EnableBashCompletion = true
	if app.Version == "" {
		app.Version = version.String()
	}
	app.Commands = append(app.Commands, completion(app.Name))
	app.OnUsageError = usageError
	app.Action = checked(app.Action, cli.ShowAppHelp, false)
	for _, cmd := range app.Commands {
		prepare(cmd)
	}
	app.Setup()
	if n := len(args); n < 2 || args[n-1] != completionFlag {
		args = append(args[:min(n, 1):1], forward(app, args[1:])...)
	}
	return errors.Join(app.RunContext(ctx, args), missing)
}

func prepare(cmd *cli.Command) {
	cmd.OnUsageError = usageError
	cmd.HideHelpCommand = len(cmd.Subcommands) == 0
	cmd.Action = checked(cmd.Action, cli.ShowSubcommandHelp, cmd.ArgsUsage != "" || cmd.SkipFlagParsing)
	for _, sub := range cmd.Subcommands {
		prepare(sub)
	}
}

// checked returns an action that rejects arguments unless takes is set, and whose errors name
// the variables of flags. A command without an action prints its help.
func checked(do, help cli.ActionFunc, takes bool) cli.ActionFunc {
	if do == nil {
		do = help
	}
	return func(c *cli.Context) error {
		switch {
		case takes || !c.Args().Present():
			return withVariables(c, do(c))
		case len(c.Command.Subcommands) > 0:
			return wrong(c, fmt.Errorf("unknown command %q", c.Args().First()))
		default:
			return wrong(c, fmt.Errorf("unexpected argument %q", c.Args().First()))
		}
	}
}

// forward moves the options of the app before its commands. After a command, an option that
// the command has too is the command's.
func forward(app *cli.App, words []string) []string {
	var front, rest []string
	var own []cli.Flag
	commands := app.Commands
	for i := 0; i < len(words); i++ {
		if words[i] == "--" {
			rest = append(rest, words[i:]...)
			break
		}
		name, option := strings.CutPrefix(words[i], "-")
		if !option || name == "" {
			rest = append(rest, words[i])
			if at := slices.IndexFunc(commands, func(c *cli.Command) bool { return c.HasName(words[i]) }); at >= 0 {
				if commands[at].SkipFlagParsing {
					return slices.Concat(front, rest, words[i+1:])
				}
				own, commands = append(own, commands[at].Flags...), commands[at].Subcommands
			}
			continue
		}
		name, _, hasValue := strings.Cut(strings.TrimPrefix(name, "-"), "=")
		to, f := &rest, find(own, name)
		if f == nil {
			if f = find(app.Flags, name); f != nil && f != cli.HelpFlag {
				to = &front
			}
		}
		*to = append(*to, words[i])
		if d, ok := f.(cli.DocGenerationFlag); ok && d.TakesValue() && !hasValue && i+1 < len(words) {
			i++
			*to = append(*to, words[i])
		}
	}
	return append(front, rest...)
}

// find returns the flag with a name, or nil.
func find(flags []cli.Flag, name string) cli.Flag {
	for _, f := range flags {
		if slices.Contains(f.Names(), name) {
			return f
		}
	}
	return nil
}
