package agent

import "outrigger.dev/pkg/cmdline"

// ExitError is an error after which the program ends with an exit code of its own.
type ExitError = cmdline.ExitError

// Usagef returns an error in the command line. Main prints it in one line and exits
// with code 2.
func Usagef(format string, args ...any) error { return cmdline.Usagef(format, args...) }

// BadFlag returns the error for a flag with an invalid value; allowed describes the
// valid ones.
func BadFlag(flag, value, allowed string) error { return cmdline.BadFlag(flag, value, allowed) }
