// Package cmdline adds features to urfave/cli: errors of one line that name the flag and its
// environment variable, exit codes, rejected arguments, options on either side of a command, flags
// that check their values, and completion for three shells.
package cmdline

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"outrigger.dev/pkg/text"
	"outrigger.dev/pkg/version"
)

// Exec runs a tool with args, which begin with the name of the tool, and prints an error in one
// line unless its text is empty. It returns the exit code.
func Exec(ctx context.Context, app *cli.App, args []string) int {
	err := Run(ctx, app, args)
	if err != nil && err.Error() != "" {
		_, _ = fmt.Fprintf(app.ErrWriter, "%s: %s\n", app.Name, text.OneLine(err))
	}
	return Code(err, 1)
}

// Run completes app and runs it once. Options of the app may be on either side of a command. A
// command without ArgsUsage rejects arguments. Run does not print errors and does not end the
// process.
func Run(ctx context.Context, app *cli.App, args []string) error {
	var missing error
	app.CommandNotFound = func(c *cli.Context, name string) {
		missing = unknownCommand(c, name)
	}
	app.ExitErrHandler = func(*cli.Context, error) {}
	app.EnableBashCompletion = true
	app.Version = version.String()
	app.Commands = append(app.Commands, completion(app.Name))
	app.OnUsageError = onUsageError
	app.Action = checked(app.Action, false)
	for _, cmd := range app.Commands {
		prepare(cmd)
	}
	app.Setup()
	if args[len(args)-1] != completionFlag {
		args = append(args[:1:1], optionsFirst(app, args[1:])...)
	}
	return errors.Join(app.RunContext(ctx, args), missing)
}

func prepare(cmd *cli.Command) {
	cmd.OnUsageError = onUsageError
	cmd.HideHelpCommand = len(cmd.Subcommands) == 0
	cmd.Action = checked(cmd.Action, cmd.ArgsUsage != "" || cmd.SkipFlagParsing)
	for _, sub := range cmd.Subcommands {
		prepare(sub)
	}
}

// checked returns an action whose errors name the variables of flags. It rejects arguments unless
// takes is set. A command without an action prints its help.
func checked(do cli.ActionFunc, takes bool) cli.ActionFunc {
	if do == nil {
		return nil
	}
	return func(c *cli.Context) error {
		switch {
		case takes || !c.Args().Present():
			return withVariables(c, do(c))
		case len(c.Command.Subcommands) > 0:
			return unknownCommand(c, c.Args().First())
		default:
			return onUsageError(c, fmt.Errorf("unexpected argument %q", c.Args().First()), true)
		}
	}
}

// optionsFirst moves the options of the app before its commands. If the command has an option of
// the same name, an option after the command belongs to the command.
func optionsFirst(app *cli.App, words []string) []string {
	var front, rest []string
	var own []cli.Flag
	commands := app.Commands
	for len(words) > 0 && words[0] != "--" {
		word, n, to := words[0], 1, &rest
		name, _, hasValue := strings.Cut(strings.TrimLeft(word, "-"), "=")
		if strings.HasPrefix(word, "-") && name != "" {
			f := findFlag(own, name)
			if global := findFlag(app.Flags, name); f == nil && global != nil && global != cli.HelpFlag {
				f, to = global, &front
			}
			if d, ok := f.(cli.DocGenerationFlag); ok && d.TakesValue() && !hasValue {
				n = min(2, len(words))
			}
		}
		*to, words = append(*to, words[:n]...), words[n:]
		if at := slices.IndexFunc(commands, func(c *cli.Command) bool { return c.HasName(word) }); at >= 0 {
			if commands[at].SkipFlagParsing {
				break
			}
			own, commands = append(own, commands[at].Flags...), commands[at].Subcommands
		}
	}
	return slices.Concat(front, rest, words)
}

// findFlag returns the flag with this name, or nil.
func findFlag(flags []cli.Flag, name string) cli.Flag {
	for _, f := range flags {
		if slices.Contains(f.Names(), name) {
			return f
		}
	}
	return nil
}
