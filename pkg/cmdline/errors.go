package cmdline

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/urfave/cli/v2"
)

// usageError is an error in the command line.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// Usagef returns an error in the command line. If the text begins with "flag --NAME: ", Run adds
// the environment variable.
func Usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// Code returns the exit code after err: 0 for nil, the code of a cli.Exit, usage for an error in
// the command line, and 1 for any other error.
func Code(err error, usage int) int {
	if err == nil {
		return 0
	}
	if exit, ok := errors.AsType[cli.ExitCoder](err); ok {
		return exit.ExitCode()
	}
	if _, ok := errors.AsType[usageError](err); ok {
		return usage
	}
	return 1
}

// fixedError is an error whose text names the environment variables of flags and the fix.
type fixedError struct {
	error

	text string
}

func (e fixedError) Error() string { return e.text }

func (e fixedError) Unwrap() error { return e.error }

// withFix adds the environment variable to each flag that the error of a command names, and the fix
// to the error of a file.
func withFix(c *cli.Context, err error) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	for _, level := range c.Lineage() {
		if level.Command != nil {
			for _, f := range level.Command.Flags {
				text = strings.ReplaceAll(text, "flag --"+f.Names()[0]+": ", describeFlag(f)+": ")
			}
		}
	}
	return fixedError{err, text + fileFix(err, text)}
}

// FileError returns the text of an error, with the fix if it ends with the error of a missing or
// forbidden file.
func FileError(err error) string {
	text := err.Error()
	return text + fileFix(err, text)
}

// fileFix returns the fix for a text that ends with the error of a missing or forbidden file. It
// returns "" for other texts, which may have a better fix at their end.
func fileFix(err error, text string) string {
	number, is := errors.AsType[syscall.Errno](err)
	if !is || !strings.HasSuffix(text, ": "+number.Error()) {
		return ""
	}
	switch number {
	case syscall.ENOENT:
		return ": create it, or use another path; in a pod, mount it"
	case syscall.EACCES:
		return ": give the user of this process access, or run as root"
	case syscall.EPERM:
		return ": run as root"
	default:
		return ""
	}
}

// describeFlag returns the name of a flag for an error, with the variable that sets it, or
// the first of its variables.
func describeFlag(f cli.Flag) string {
	name := "flag --" + f.Names()[0]
	if v := variable(f); v != "" {
		name += " (environment variable " + v + ")"
	}
	return name
}

// variable returns the environment variable that sets a flag, or the first of its variables, or "".
func variable(f cli.Flag) string {
	d, ok := f.(cli.DocGenerationFlag)
	if !ok || len(d.GetEnvVars()) == 0 {
		return ""
	}
	set := slices.IndexFunc(d.GetEnvVars(), func(v string) bool { _, ok := os.LookupEnv(v); return ok })
	return d.GetEnvVars()[max(set, 0)]
}
