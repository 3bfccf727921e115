package cmdline

import (
	"flag"

	"github.com/urfave/cli/v2"
)

// sharedFlag is a flag of all command lines of a process. cli's own flag writes to itself when a command
// line is parsed, which is a data race if two command lines are parsed at once.
type sharedFlag struct{ *cli.BoolFlag }

// Apply adds a copy of the flag to the set.
func (f sharedFlag) Apply(set *flag.FlagSet) error {
	own := *f.BoolFlag
	return own.Apply(set)
}

func init() { //nolint:gochecknoinits // the settings must precede all command lines
	for _, global := range []*cli.Flag{&cli.HelpFlag, &cli.VersionFlag} {
		if f, ok := (*global).(*cli.BoolFlag); ok {
			*global = sharedFlag{f}
		}
	}
}
