package cmdline

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/urfave/cli/v2"

	"outrigger.dev/pkg/text"
)

// The errors of urfave/cli and of package flag have no types.
var (
	unknownFlag  = regexp.MustCompile(`^flag provided but not defined: -(.+)$`)
	missingValue = regexp.MustCompile(`^flag needs an argument: -(.+)$`)
	badValue     = regexp.MustCompile(`(?s)^invalid (?:boolean )?value ("(?:[^"\\]|\\.)*") for (?:flag )?-(\S+): (.*)$`)
	badVariable  = regexp.MustCompile(`(?s)^could not parse ("(?:[^"\\]|\\.)*") as .+ for flag (\S+): (.*)$`)
)

// onUsageError is a cli.OnUsageErrorFunc. It returns the error in the command line with its fix, and
// with the command for help.
func onUsageError(c *cli.Context, err error, _ bool) error {
	return Usagef("%w: see '%s --help'", explain(c, err), cmp.Or(c.Command.HelpName, c.App.Name))
}

// unknownCommand returns the error for a command that neither the app nor the current command has.
func unknownCommand(c *cli.Context, name string) error {
	var known []string
	for _, cmd := range c.App.Commands {
		known = append(known, cmd.Names()...)
	}
	if len(c.Command.Subcommands) > 0 {
		known = nil
		for _, cmd := range c.Command.Subcommands {
			known = append(known, cmd.Names()...)
		}
	}
	return onUsageError(c, fmt.Errorf("unknown command %q%s", name, question("", text.Nearest(name, known))), true)
}

// explain returns an error of the parser in the form of the errors of Check: it names the flag with
// two dashes, its variable, and the allowed values, or the flag that the user probably means.
func explain(c *cli.Context, err error) error {
	message := err.Error()
	if m := unknownFlag.FindStringSubmatch(message); m != nil {
		return fmt.Errorf("unknown flag %s%s", dashed(m[1]), question("--", text.Nearest(m[1], flagNames(c))))
	}
	if m := missingValue.FindStringSubmatch(message); m != nil {
		return fmt.Errorf("flag %s needs a value", dashed(m[1]))
	}
	m := badValue.FindStringSubmatch(message)
	if m == nil {
		m = badVariable.FindStringSubmatch(message)
	}
	if m == nil {
		return err
	}
	f := flagOf(c, m[2])
	if f == nil {
		return err
	}
	reason := m[3]
	if words := allowed(f); words != "" {
		reason = "must be " + words
	}
	return errors.New(describeFlag(f) + ": invalid value " + m[1] + ": " + reason)
}

// dashed returns a flag as users write it.
func dashed(name string) string {
	if len(name) == 1 {
		return "-" + name
	}
	return "--" + strings.TrimLeft(name, "-")
}

// question returns the end of an error that asks for a similar word, or "" without one.
func question(dashes, word string) string {
	if word == "" {
		return ""
	}
	return ": did you mean " + dashes + word + "?"
}

// flagOf returns the flag of the current command or of the app with this name, or nil.
func flagOf(c *cli.Context, name string) cli.Flag {
	if f := findFlag(c.Command.Flags, name); f != nil {
		return f
	}
	return findFlag(c.App.Flags, name)
}

// flagNames returns the long names of the flags of the current command and of the app.
func flagNames(c *cli.Context) []string {
	var names []string
	for _, flags := range [][]cli.Flag{c.Command.Flags, c.App.Flags} {
		for _, f := range flags {
			for _, name := range f.Names() {
				if len(name) > 1 {
					names = append(names, name)
				}
			}
		}
	}
	return names
}

// allowed describes the values that the parser accepts for a flag, or returns "" if the flag itself
// checks its values.
func allowed(f cli.Flag) string {
	switch f.(type) {
	case *cli.BoolFlag:
		return "true or false"
	case *cli.DurationFlag:
		return "a duration such as 30s or 5m"
	case *cli.IntFlag, *cli.Int64Flag, *cli.UintFlag, *cli.Uint64Flag, *cli.IntSliceFlag:
		return "an integer"
	case *cli.Float64Flag:
		return "a number"
	default:
		return ""
	}
}
