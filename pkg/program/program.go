// Package program gives the tools of this repository what their command lines have in
// common: --version, help, shell completion, and errors of one line that name the fix.
// Agents start from package agent instead, which links less.
package program

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/urfave/cli/v2"

	"outrigger.dev/pkg/flagerr"
	"outrigger.dev/pkg/version"
)

// Prepare completes app and returns it. The result
//   - prints its version with --version, help, and completion scripts with the command
//     completion,
//   - rejects unknown commands, and arguments of commands without ArgsUsage,
//   - names the environment variable in an error about a flag that it has set,
//   - returns each error to the caller of Run instead of ending the process.
//
// Call it once for each app, after all commands are set.
func Prepare(app *cli.App) *cli.App {
	app.Version = version.String()
	app.EnableBashCompletion = true
	app.Flags = append(app.Flags, cli.HelpFlag) // which the library adds only with its own command help
	app.ExitErrHandler = func(*cli.Context, error) {}
	app.Commands = append(app.Commands, scripts(app.Name), helpCommand(app.Name, "", func() []*cli.Command { return app.Commands }))
	app.OnUsageError = usageError(app.Name, "", app.Flags)
	app.Action = named(action(app.Action, cli.ShowAppHelp, unknown(app.Name, "", "unknown command")))
	for _, cmd := range app.Commands {
		prepare(cmd, app.Name, "")
	}
	return app
}

// prepare completes a command below the command above.
func prepare(cmd *cli.Command, app, above string) {
	path := strings.TrimSpace(above + " " + cmd.Name)
	if above != "" { // the library does that for the first level
		cmd.HelpName = app + " " + path
	}
	cmd.OnUsageError = usageError(app, path, cmd.Flags)
	switch {
	case len(cmd.Subcommands) > 0:
		cmd.Action = action(cmd.Action, cli.ShowSubcommandHelp, unknown(app, path, "unknown command"))
		cmd.Subcommands = append(cmd.Subcommands, helpCommand(app, path, func() []*cli.Command { return cmd.Subcommands }))
	case cmd.ArgsUsage == "" && !cmd.SkipFlagParsing:
		cmd.Action = action(cmd.Action, cli.ShowSubcommandHelp, unknown(app, path, "unexpected argument"))
		fallthrough
	default:
		cmd.HideHelpCommand = true
	}
	cmd.Action = named(cmd.Action)
	for _, sub := range cmd.Subcommands {
		prepare(sub, app, path)
	}
}

// action returns do, or help if it is nil, for a command line without arguments.
func action(do, help cli.ActionFunc, reject func(argument string) error) cli.ActionFunc {
	if do == nil {
		do = help
	}
	return func(c *cli.Context) error {
		if c.Args().Present() {
			return reject(c.Args().First())
		}
		return do(c)
	}
}

// unknown returns the function that makes an error of an argument.
func unknown(app, path, what string) func(string) error {
	return func(argument string) error {
		return wrong(app, path, fmt.Errorf("%s %q", what, argument))
	}
}

// usageError returns the function that makes an error of one line from one of the
// library, which would print the help as well.
func usageError(app, path string, flags []cli.Flag) cli.OnUsageErrorFunc {
	return func(_ *cli.Context, err error, _ bool) error {
		if text := flagerr.Value(flags, err); text != "" {
			err = errors.New(text)
		}
		return wrong(app, path, err)
	}
}

// wrong returns the error about the command line of the command path, with the fix.
func wrong(app, path string, err error) error {
	if path == "" {
		return fmt.Errorf("%w; see %q", err, app+" --help")
	}
	return fmt.Errorf("%s: %w; see %q", path, err, app+" "+path+" --help")
}

// BadFlag returns the error about a flag with a value that it cannot have; allowed describes
// those that it can have. It names the variable that has set the flag, if one has.
func BadFlag(flag string, value any, allowed string) error {
	return errors.New(flagerr.Invalid(flag, fmt.Sprint(value), allowed))
}

// namedError is an error whose text names environment variables.
type namedError struct {
	error

	text string
}

func (e *namedError) Error() string { return e.text }

func (e *namedError) Unwrap() error { return e.error }

// named returns an action whose errors name the variables that have set flags.
func named(do cli.ActionFunc) cli.ActionFunc {
	return func(c *cli.Context) error {
		err := do(c)
		if err == nil {
			return nil
		}
		text := err.Error()
		for _, level := range c.Lineage() {
			if level.Command != nil {
				text = flagerr.Named(text, flagerr.Variables(level.Command.Flags, overridden(level)))
			}
		}
		return &namedError{error: err, text: text}
	}
}

// overridden returns the flags that have another value than that of their variable: the
// command line has set them. The library does not tell which flags it has set.
func overridden(c *cli.Context) []string {
	var out []string
	for _, f := range c.Command.Flags {
		d, ok := f.(cli.DocGenerationFlag)
		if !ok {
			continue
		}
		for _, env := range d.GetEnvVars() {
			if value, found := os.LookupEnv(env); found && value != fmt.Sprint(c.Value(f.Names()[0])) {
				out = append(out, f.Names()[0])
			}
		}
	}
	return out
}
