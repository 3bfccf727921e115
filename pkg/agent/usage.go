package agent

import (
	"slices"

	"github.com/urfave/cli/v2"

	"outrigger.dev/pkg/cmdline"
	"outrigger.dev/pkg/text"
)

// ExitError is an error after which the program ends with an exit code of its own.
type ExitError = cmdline.ExitError

// Usagef returns an error in the command line. Main prints it in one line and exits
// with code 2.
func Usagef(format string, args ...any) error { return cmdline.Usagef(format, args...) }

// BadFlag returns the error for a flag with an invalid value; allowed describes the
// valid ones.
func BadFlag(flag, value, allowed string) error { return cmdline.BadFlag(flag, value, allowed) }

// Choice returns the value of a flag that accepts one of a few words.
func Choice(c *cli.Context, flag string, allowed ...string) (string, error) {
	v := c.String(flag)
	if slices.Contains(allowed, v) {
		return v, nil
	}
	return "", BadFlag(flag, v, text.OneOf(allowed))
}
