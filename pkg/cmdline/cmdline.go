// Package cmdline adds features to urfave/cli: errors of one line that name the flag and its
// environment variable, exit codes, rejected arguments, options on either side of a command, flags
// that check their values, and completion for three shells.
package cmdline

import (
	"context"
	"errors"
	"fmt"

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

// Run adds the features of this package to app and runs it once. Options of the app may be on either side of a command.
// A command without ArgsUsage rejects arguments. Run does not print errors and does not end the process.
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
		words, err := arrange(app, args[1:])
		if err != nil {
			return err
		}
		args = append(args[:1:1], words...)
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

// checked returns an action whose errors name the variables of flags and the fix. It rejects arguments unless
// takes is set. A command without an action prints its help.
func checked(do cli.ActionFunc, takes bool) cli.ActionFunc {
	if do == nil {
		return nil
	}
	return func(c *cli.Context) error {
		switch {
		case takes || !c.Args().Present():
			return withFix(c, do(c))
		case len(c.Command.Subcommands) > 0:
			return unknownCommand(c, c.Args().First())
		default:
			return onUsageError(c, fmt.Errorf("unexpected argument %q", c.Args().First()), true)
		}
	}
}
