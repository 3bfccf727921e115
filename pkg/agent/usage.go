package agent

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

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
	return Usagef("flag --%s: invalid value %q: must be %s", flag, value, allowed)
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
		return Usagef("unknown flag --%s: see '%s --help'", strings.TrimLeft(name, "-"), path)
	}
	if name, ok := strings.CutPrefix(msg, "flag needs an argument: -"); ok {
		return Usagef("flag --%s: needs a value", strings.TrimLeft(name, "-"))
	}
	var value, name string
	if _, e := fmt.Sscanf(msg, "invalid value %q for flag -%s", &value, &name); e == nil {
		return BadFlag(strings.TrimSuffix(name, ":"), value, kind(flags, strings.TrimSuffix(name, ":")))
	}
	if _, e := fmt.Sscanf(msg, "invalid boolean value %q for -%s", &value, &name); e == nil {
		return BadFlag(strings.TrimSuffix(name, ":"), value, "true or false")
	}
	// From an environment variable: could not parse "x" as int value from
	// environment variable "REPLICAS" for flag replicas: parse error.
	if rest, ok := strings.CutPrefix(msg, "could not parse "); ok {
		if _, e := fmt.Sscanf(rest, "%q", &value); e == nil {
			env := between(rest, "environment variable \"", "\"")
			name = between(rest, " for flag ", ":")
			return Usagef("environment variable %s (flag --%s): invalid value %q: must be %s",
				env, name, value, kind(flags, name))
		}
	}
	return &usageError{msg: msg}
}

func between(s, before, after string) string {
	_, s, _ = strings.Cut(s, before)
	s, _, _ = strings.Cut(s, after)
	return s
}

// kind describes the valid values of a flag.
func kind(flags []cli.Flag, name string) string {
	i := slices.IndexFunc(flags, func(f cli.Flag) bool { return slices.Contains(f.Names(), name) })
	if i < 0 {
		return "a value of the flag's type"
	}
	switch flags[i].(type) {
	case *cli.BoolFlag:
		return "true or false"
	case *cli.IntFlag, *cli.Int64Flag:
		return "an integer"
	case *cli.UintFlag, *cli.Uint64Flag:
		return "an integer of at least 0"
	case *cli.IntSliceFlag:
		return "a comma-separated list of integers"
	case *cli.Float64Flag:
		return "a number"
	case *cli.DurationFlag:
		return "a duration such as 500ms, 30s or 5m"
	default:
		return "a value of the flag's type"
	}
}

// oneLine folds joined errors into one line of at most maxText bytes.
func oneLine(err error) string {
	lines := strings.FieldsFunc(text.Cut(err.Error(), maxText), func(r rune) bool { return r == '\n' || r == '\r' })
	return text.Cut(strings.Join(lines, "; "), maxText)
}

// note records which variables set flags that the command line does not set.
func (s *session) note(flags []cli.Flag, set *flag.FlagSet) {
	onLine := map[string]bool{}
	set.Visit(func(f *flag.Flag) { onLine[f.Name] = true })
	for _, f := range flags {
		if !f.IsSet() {
			continue
		}
		name, e := f.Names()[0], f.(envFlag) //nolint:forcetypeassert // CheckFlags has checked it
		if onLine[name] {
			continue
		}
		for _, env := range e.GetEnvVars() {
			if _, ok := os.LookupEnv(env); ok {
				s.variables[name] = env
				break
			}
		}
	}
}

// nameVariables makes errors about flags name the variables that set them: users
// search for what they wrote.
func (s *session) nameVariables(text string) string {
	for name, env := range s.variables {
		text = strings.ReplaceAll(text, "flag --"+name+": ", "environment variable "+env+" (flag --"+name+"): ")
	}
	return text
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
