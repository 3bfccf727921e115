package agent

import (
	"log/slog"

	"github.com/urfave/cli/v2"
)

// noEffect is the category of flags that have no effect.
const noEffect = "Accepted without effect"

// Ignored returns a flag of another program that this one accepts, so that manifests for
// the other program work. It has no effect; why says what makes it unnecessary. The agent
// logs that when it starts with the flag.
func Ignored(name, env, why string, aliases ...string) *cli.StringFlag {
	return &cli.StringFlag{Name: name, Aliases: aliases, EnvVars: []string{env}, Usage: why, Category: noEffect}
}

// IgnoredSwitch is Ignored for a flag that needs no value.
func IgnoredSwitch(name, env, why string, aliases ...string) *cli.BoolFlag {
	return &cli.BoolFlag{Name: name, Aliases: aliases, EnvVars: []string{env}, Usage: why, Category: noEffect}
}

// logIgnored logs the flags that are set and have no effect.
func (s *session) logIgnored(c *cli.Context, log *slog.Logger) {
	for _, f := range s.flags {
		name := f.Names()[0]
		if i, ok := f.(interface {
			cli.CategorizableFlag
			cli.DocGenerationFlag
		}); ok && i.GetCategory() == noEffect && c.IsSet(name) {
			log.Info("flag has no effect", "flag", name, "why", i.GetUsage())
		}
	}
}
