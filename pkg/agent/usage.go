package agent

import "outrigger.dev/pkg/cmdline"

// Usagef returns an error in the command line. Main prints it in one line and exits
// with code 2.
func Usagef(format string, args ...any) error { return cmdline.Usagef(format, args...) }
