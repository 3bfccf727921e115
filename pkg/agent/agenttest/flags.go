package agenttest

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"outrigger.dev/pkg/agent"
)

// CheckApp returns an error for each flag of an agent and its commands without an
// environment variable of the same words: "--log-level" needs LOG_LEVEL, with or without
// words before or after it, for example NVIDIA_DRIVER_ROOT for "--driver-root".
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
