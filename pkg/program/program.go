// Package program gives the tools of this repository what their command lines have in
// common: --version, shell completion, and errors of one line that name the fix. Agents
// start from package agent instead, which links less.
package program

import (
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"outrigger.dev/pkg/version"
)

// Prepare completes app and returns it. The result
//   - prints its version with --version, and completion scripts with the command
//     completion,
//   - rejects unknown commands, and arguments of commands without ArgsUsage,
//   - returns each error to the caller of Run instead of ending the process.
//
// Call it once for each app, after all commands are set.
func Prepare(app *cli.App) *cli.App {
	app.Version = version.String()
	app.EnableBashCompletion = true
	app.ExitErrHandler = func(*cli.Context, error) {}
	app.Commands = append(app.Commands, scripts(app.Name))
	app.OnUsageError = usageError(app.Name, "")
	app.Action = action(app.Action, cli.ShowAppHelp, unknown(app.Name, "", "unknown command"))
	for _, cmd := range app.Commands {
		prepare(cmd, app.Name, "")
	}
	return app
}

// prepare completes a command below the command above.
func prepare(cmd *cli.Command, app, above string) {
	path := strings.TrimSpace(above + " " + cmd.Name)
	cmd.OnUsageError = usageError(app, path)
	switch {
	case len(cmd.Subcommands) > 0:
		cmd.Action = action(cmd.Action, cli.ShowSubcommandHelp, unknown(app, path, "unknown command"))
	case cmd.ArgsUsage == "" && !cmd.SkipFlagParsing:
		cmd.Action = action(cmd.Action, cli.ShowSubcommandHelp, unknown(app, path, "unexpected argument"))
	}
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
func usageError(app, path string) cli.OnUsageErrorFunc {
	return func(_ *cli.Context, err error, _ bool) error { return wrong(app, path, err) }
}

// wrong returns the error about the command line of the command path, with the fix.
func wrong(app, path string, err error) error {
	if path == "" {
		return fmt.Errorf("%w; see %q", err, app+" --help")
	}
	return fmt.Errorf("%s: %w; see %q", path, err, app+" "+path+" --help")
}
