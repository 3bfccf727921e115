package agenttest

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"

	"outrigger.dev/pkg/agent"
	"outrigger.dev/pkg/cmdline/cmdlinetest"
)

// CheckApp returns an error for each flag, of an agent or its commands, that has no environment
// variable of the same words: "--log-level" needs LOG_LEVEL. The variable may have more words
// before or after these, for example NVIDIA_DRIVER_ROOT for "--driver-root".
func CheckApp(app agent.App) error {
	flags := app.Flags
	for _, c := range app.Commands {
		flags = slices.Concat(flags, c.Flags)
	}
	var errs []error
	for _, f := range flags {
		name := f.Names()[0]
		words := "_" + strings.ToUpper(strings.NewReplacer("-", "_", ".", "_").Replace(name)) + "_"
		d, ok := f.(cli.DocGenerationFlag)
		if !ok || !slices.ContainsFunc(d.GetEnvVars(), func(v string) bool { return strings.Contains("_"+v+"_", words) }) {
			errs = append(errs, fmt.Errorf("check flag --%s: no environment variable has its words: add %s", name, strings.Trim(words, "_")))
		}
	}
	return errors.Join(errs...)
}

// CheckHelp returns an error for each flag of an agent without a category, and for an agent without
// examples. Flags of commands need no category.
func CheckHelp(app agent.App) error {
	var errs []error
	for _, f := range app.Flags {
		if c, ok := f.(cli.CategorizableFlag); !ok || c.GetCategory() == "" {
			errs = append(errs, fmt.Errorf("check flag --%s: no category: put it into one of package category", f.Names()[0]))
		}
	}
	if len(app.Examples) == 0 {
		errs = append(errs, errors.New("check the help: no examples: set App.Examples"))
	}
	return errors.Join(errs...)
}

// Program returns the command line of an agent for tests with package cmdlinetest. app returns a
// new App for each run.
func Program(t testing.TB, app func() agent.App) cmdlinetest.Program {
	return cmdlinetest.Program{
		Name: app().Name, Usage: cmp.Or(app().UsageCode, 2),
		Run: func(args []string, stdout, stderr io.Writer) int {
			return agent.Exec(t.Context(), app(), args, stdout, stderr)
		},
	}
}
