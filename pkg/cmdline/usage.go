package cmdline

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"outrigger.dev/pkg/text"
)

// onUsageError is a cli.OnUsageErrorFunc. It returns the error in the command line with the command
// for help.
func onUsageError(c *cli.Context, err error, _ bool) error {
	return Usagef("%w: see '%s --help'", err, cmp.Or(c.Command.HelpName, c.App.Name))
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

// checkType returns an error if a value is not of the flag's type. The flag's own check, such as Enum,
// runs later, as the flag's action.
func checkType(f cli.Flag, value string) error {
	var err error
	var allowed string
	switch f.(type) {
	case *cli.BoolFlag, sharedFlag:
		allowed = "true or false"
		_, err = strconv.ParseBool(value)
	case *cli.DurationFlag:
		allowed = "a duration such as 30s or 5m"
		_, err = time.ParseDuration(value)
	case *cli.IntFlag:
		allowed = "an integer"
		_, err = strconv.ParseInt(value, 0, strconv.IntSize)
	case *cli.UintFlag, *cli.Uint64Flag:
		allowed = "an integer of at least 0"
		_, err = strconv.ParseUint(value, 0, 64)
	case *cli.IntSliceFlag:
		allowed = "integers, separated by commas"
		for word := range strings.SplitSeq(value, ",") {
			if _, e := strconv.ParseInt(strings.TrimSpace(word), 0, 64); e != nil {
				err = e
			}
		}
	case *cli.Float64Flag:
		allowed = "a number"
		_, err = strconv.ParseFloat(value, 64)
	}
	if err != nil {
		return invalid(f, value, allowed)
	}
	return nil
}

// invalid returns the error for a value that a flag does not accept.
func invalid(f cli.Flag, value, allowed string) error {
	return fmt.Errorf("%s: invalid value %q: must be %s", describeFlag(f), value, allowed)
}

// dashed returns a flag as users write it.
func dashed(name string) string {
	if len(name) == 1 {
		return "-" + name
	}
	return "--" + name
}

// question returns the end of an error that suggests a similar word, or "" without one.
func question(dashes, word string) string {
	if word == "" {
		return ""
	}
	return ": did you mean " + dashes + word + "?"
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

// longNames returns the long names of flags.
func longNames(flags []cli.Flag) []string {
	var names []string
	for _, f := range flags {
		for _, name := range f.Names() {
			if len(name) > 1 {
				names = append(names, name)
			}
		}
	}
	return names
}
