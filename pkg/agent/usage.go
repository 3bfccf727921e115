package agent

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"outrigger.dev/pkg/flagerr"
	"outrigger.dev/pkg/text"
)

// usageError is an error in the command line, which leads to exit code 2.
type usageError struct{ msg string }

func (e *usageError) Error() string { return e.msg }

// Usagef returns an error in the command line. Main prints it in one line and exits
// with code 2.
func Usagef(format string, args ...any) error {
	return &usageError{msg: fmt.Sprintf(format, args...)}
}

// BadFlag returns the error for a flag with an invalid value; allowed describes the
// valid ones.
func BadFlag(flag, value, allowed string) error {
	return &usageError{msg: flagerr.Invalid(flag, value, allowed)}
}

// Choice returns the value of a flag that accepts one of a few words.
func Choice(c *cli.Context, flag string, allowed ...string) (string, error) {
	v := c.String(flag)
	if slices.Contains(allowed, v) {
		return v, nil
	}
	return "", BadFlag(flag, v, text.OneOf(allowed))
}

// parseError rewrites an error of the flag parser in the form of the other errors; path is
// the command whose help has the flags.
func parseError(path string, flags []cli.Flag, err error) error {
	msg := err.Error()
	if name, ok := strings.CutPrefix(msg, "flag provided but not defined: -"); ok {
		return Usagef("unknown flag %s: see '%s --help'", flagerr.Dashed(strings.TrimLeft(name, "-")), path)
	}
	if name, ok := strings.CutPrefix(msg, "flag needs an argument: -"); ok {
		return Usagef("flag %s: needs a value", flagerr.Dashed(strings.TrimLeft(name, "-")))
	}
	if text := flagerr.Value(flags, err); text != "" {
		msg = text
	}
	return &usageError{msg: msg}
}

// oneLine folds joined errors into one line of at most maxText bytes.
func oneLine(err error) string {
	lines := strings.FieldsFunc(text.Cut(err.Error(), maxText), func(r rune) bool { return r == '\n' || r == '\r' })
	return text.Cut(strings.Join(lines, "; "), maxText)
}

// note records which variables set flags that the command line does not set.
func (s *session) note(flags []cli.Flag, set *flag.FlagSet) {
	var onLine []string
	set.Visit(func(f *flag.Flag) { onLine = append(onLine, f.Name) })
	maps.Copy(s.variables, flagerr.Variables(flags, onLine))
}

// ExitError is an error after which the program ends with an exit code of its own.
type ExitError struct {
	Code int
	Err  error
}

func (e *ExitError) Error() string { return e.Err.Error() }

// Unwrap returns the error without the code.
func (e *ExitError) Unwrap() error { return e.Err }

// exitCode is 2 for an error in the command line, the code of an ExitError, and 1 for any
// other.
func exitCode(err error) int {
	if exit := (*ExitError)(nil); errors.As(err, &exit) {
		return exit.Code
	}
	if isUsage(err) {
		return 2
	}
	return 1
}

func isUsage(err error) bool {
	usage := (*usageError)(nil)
	return errors.As(err, &usage)
}
