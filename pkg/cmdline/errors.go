package cmdline

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/urfave/cli/v2"

	"outrigger.dev/pkg/text"
)

// UsageError is an error in the command line.
type UsageError struct{ error }

// Unwrap returns the error itself.
func (e *UsageError) Unwrap() error { return e.error }

// Usagef returns an error in the command line.
func Usagef(format string, args ...any) error { return &UsageError{fmt.Errorf(format, args...)} }

// BadFlag returns the error about a flag with a value that it cannot have; allowed describes
// those that it can have. The action that returns it need not name the variable: Run does.
func BadFlag(flag, value, allowed string) error {
	return Usagef("flag --%s: invalid value %q: must be %s", flag, value, allowed)
}

// ExitError is an error after which the program ends with an exit code of its own. Without
// Err, the program has said what is wrong.
type ExitError struct {
	Code int
	Err  error
}

func (e *ExitError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit code %d", e.Code)
	}
	return e.Err.Error()
}

// Unwrap returns the error without the code.
func (e *ExitError) Unwrap() error { return e.Err }

// Code returns the exit code after err: 0 for none, that of an ExitError, usage for an error
// in the command line, and 1 for any other.
func Code(err error, usage int) int {
	if err == nil {
		return 0
	}
	if exit, ok := errors.AsType[*ExitError](err); ok {
		return exit.Code
	}
	if IsUsage(err) {
		return usage
	}
	return 1
}

// IsUsage reports whether an error is one in the command line.
func IsUsage(err error) bool {
	_, ok := errors.AsType[*UsageError](err)
	return ok
}

// MaxText is the longest text of an error in bytes. Container runtimes split lines of more
// than 16 KiB.
const MaxText = 8 << 10

// OneLine returns the text of an error without line breaks, of at most MaxText bytes.
func OneLine(err error) string {
	lines := strings.FieldsFunc(text.Cut(err.Error(), MaxText), func(r rune) bool { return r == '\n' || r == '\r' })
	return text.Cut(strings.Join(lines, "; "), MaxText)
}

// wrong returns an error in the command line of a command, with the command that helps.
func wrong(c *cli.Context, err error) error {
	return Usagef("%w: see '%s --help'", err, cmp.Or(c.Command.HelpName, c.App.Name))
}

func usageError(c *cli.Context, err error, _ bool) error { return wrong(c, err) }

// renamed is an error with another text.
type renamed struct {
	error

	text string
}

func (e *renamed) Error() string { return e.text }

func (e *renamed) Unwrap() error { return e.error }

// withVariables names the environment variable of each flag that an error of a command is
// about.
func withVariables(c *cli.Context, err error) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	for _, level := range c.Lineage() {
		if level.Command == nil {
			continue
		}
		for _, f := range level.Command.Flags {
			plain := "flag --" + f.Names()[0]
			text = strings.ReplaceAll(text, plain+": ", title(f)+": ")
		}
	}
	return &renamed{error: err, text: text}
}

// title returns what an error calls a flag.
func title(f cli.Flag) string {
	name := "flag --" + f.Names()[0]
	if d, ok := f.(cli.DocGenerationFlag); ok && len(d.GetEnvVars()) > 0 {
		return name + " (environment variable " + variable(d.GetEnvVars()) + ")"
	}
	return name
}

// variable returns the variable that sets a flag, or else would.
func variable(names []string) string {
	for _, name := range names {
		if _, ok := os.LookupEnv(name); ok {
			return name
		}
	}
	return names[0]
}
