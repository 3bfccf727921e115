package agent

import (
	"log/slog"

	"github.com/urfave/cli/v2"

	"outrigger.dev/pkg/cmdline/category"
)

// Ignored returns a flag without effect. The agent accepts it so that manifests for another program
// work. why explains why the flag is not needed; the agent logs it at its start if the flag is set.
func Ignored(name, env, why string, aliases ...string) *cli.StringFlag {
	return &cli.StringFlag{Name: name, Aliases: aliases, EnvVars: []string{env}, Usage: why, Category: category.NoEffect}
}

// IgnoredSwitch is Ignored for a boolean flag.
func IgnoredSwitch(name, env, why string, aliases ...string) *cli.BoolFlag {
	return &cli.BoolFlag{Name: name, Aliases: aliases, EnvVars: []string{env}, Usage: why, Category: category.NoEffect}
}

// logIgnored logs the flags that are set and have no effect.
func (s *session) logIgnored(c *cli.Context, log *slog.Logger) {
	for _, f := range s.flags {
		name := f.Names()[0]
		if i, ok := f.(interface {
			cli.CategorizableFlag
			cli.DocGenerationFlag
		}); ok && i.GetCategory() == category.NoEffect && c.IsSet(name) {
			log.Info("flag has no effect", "flag", name, "why", i.GetUsage())
		}
	}
}
