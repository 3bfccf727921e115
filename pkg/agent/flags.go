package agent

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
)

// envFlag is a flag that knows its environment variables, as all of urfave/cli do.
type envFlag interface {
	cli.Flag
	cli.DocGenerationFlag
}

// ignored is a flag that has no effect.
type ignored struct {
	*cli.StringFlag
	why string
}

// Ignored returns a flag of another program that this one accepts, so that manifests for
// the other program work. It has no effect; why says what makes it unnecessary. The agent
// logs that when it starts with the flag.
func Ignored(name, env, why string) cli.Flag {
	return &ignored{why: why, StringFlag: &cli.StringFlag{
		Name: name, EnvVars: []string{env}, Usage: "accepted without effect: " + why,
	}}
}

// ignoredSwitch is a flag without a value that has no effect.
type ignoredSwitch struct {
	*cli.BoolFlag
	why string
}

// IgnoredSwitch is Ignored for a flag that needs no value.
func IgnoredSwitch(name, env, why string) cli.Flag {
	return &ignoredSwitch{why: why, BoolFlag: &cli.BoolFlag{
		Name: name, EnvVars: []string{env}, Usage: "accepted without effect: " + why,
	}}
}

// noteIgnored logs the flags that are set and have no effect.
func (s *session) noteIgnored(c *cli.Context, log *slog.Logger) {
	for _, f := range s.named {
		why := ""
		switch i := f.Flag.(type) {
		case *ignored:
			why = i.why
		case *ignoredSwitch:
			why = i.why
		}
		if why != "" && c.IsSet(f.names[0]) {
			log.Info("flag has no effect", "flag", f.names[0], "why", why)
		}
	}
}

// CheckFlags returns an error for each flag without an environment variable of the
// same words: "--log-level" needs LOG_LEVEL, with or without words before or after
// it, for example NVIDIA_DRIVER_ROOT for "--driver-root". It also rejects flags with
// several names, for which an agent has App.Aliases, and required flags, which need code
// of cli.App that the chassis does not run.
func CheckFlags(flags []cli.Flag) error { return checkFlags(named(flags)) }

func checkFlags(flags []namedFlag) error {
	errs := []error{checkVariables(flags)}
	for _, f := range flags {
		if len(f.names) > 1 {
			errs = append(errs, fmt.Errorf("check flag --%s: use App.Aliases for more names", f.names[0]))
		}
	}
	return errors.Join(errs...)
}

// checkVariables is CheckFlags for the flags of a command, which may have more names.
func checkVariables(flags []namedFlag) error {
	var errs []error
	for _, f := range flags {
		name := f.names[0]
		ef, ok := f.Flag.(envFlag)
		if !ok {
			errs = append(errs, fmt.Errorf("check flag --%s: type %T has no environment variables", name, f.Flag))
			continue
		}
		if r, ok := f.Flag.(cli.RequiredFlag); ok && r.IsRequired() {
			errs = append(errs, fmt.Errorf("check flag --%s: use Usagef for a required value", name))
		}
		words := envName(name)
		if !slices.ContainsFunc(ef.GetEnvVars(), func(env string) bool { return hasWords(env, words) }) {
			errs = append(errs, fmt.Errorf("check flag --%s: no environment variable in %q has its words: add %s", name, ef.GetEnvVars(), words))
		}
	}
	return errors.Join(errs...)
}

// envName returns the environment variable with the words of a flag.
func envName(flag string) string {
	return strings.ToUpper(strings.ReplaceAll(strings.ReplaceAll(flag, "-", "_"), ".", "_"))
}

// hasWords reports whether an environment variable has the words of a flag, as envName
// returns them.
func hasWords(env, words string) bool {
	return env == words || strings.Contains("_"+env+"_", "_"+words+"_")
}

// CheckApp reports mistakes in the description of an agent: flags without an
// environment variable, duplicate flags, aliases of unknown flags. Exec rejects such
// an App, and each agent calls CheckApp in a test.
func CheckApp(app App) error {
	s := &session{app: app}
	return s.setup()
}

func checkAliases(aliases map[string]string, flags map[string]cli.Flag) error {
	var errs []error
	for _, alias := range slices.Sorted(maps.Keys(aliases)) {
		if flags[aliases[alias]] == nil {
			errs = append(errs, fmt.Errorf("check alias --%s: no flag --%s exists", alias, aliases[alias]))
		}
		if flags[alias] != nil {
			errs = append(errs, fmt.Errorf("check alias --%s: a flag has this name", alias))
		}
	}
	return errors.Join(errs...)
}

// namedFlag is a flag with its names. urfave/cli makes these with a regular expression each
// time it is asked.
type namedFlag struct {
	cli.Flag

	names []string
}

func named(flags []cli.Flag) []namedFlag {
	out := make([]namedFlag, len(flags))
	for i, f := range flags {
		out[i] = namedFlag{Flag: f, names: f.Names()}
	}
	return out
}

// byName indexes flags by each of their names.
func byName(flags []namedFlag) (map[string]cli.Flag, error) {
	m := map[string]cli.Flag{}
	var errs []error
	for _, f := range flags {
		for _, n := range f.names {
			if m[n] != nil {
				errs = append(errs, fmt.Errorf("check flag --%s: it is defined twice", n))
			}
			m[n] = f.Flag
		}
	}
	return m, errors.Join(errs...)
}

// hoist moves the flags of the agent before the command, so that users can write
// them on either side of it, and replaces aliases. After the command, a flag that it has
// itself is not moved.
func hoist(args []string, flags map[string]cli.Flag, aliases map[string]string, commands []*cli.Command) []string {
	var front, rest []string
	var own map[string]cli.Flag
	for i := 0; i < len(args); i++ {
		if args[i] == "--" {
			rest = append(rest, args[i:]...)
			break
		}
		word, dashes := strings.CutPrefix(args[i], "-")
		name, value, hasValue := strings.Cut(strings.TrimPrefix(word, "-"), "=")
		f, to := own[name], &rest
		if f == nil {
			f, to = flags[cmp.Or(aliases[name], name)], &front
		}
		if !dashes || f == nil {
			if !dashes && own == nil {
				own = flagsOf(commands, args[i])
			}
			rest = append(rest, args[i])
			continue
		}
		token := "--" + f.Names()[0]
		if hasValue {
			token += "=" + value
		}
		*to = append(*to, token)
		if takes, ok := f.(cli.DocGenerationFlag); ok && takes.TakesValue() && !hasValue && i+1 < len(args) {
			i++
			*to = append(*to, args[i])
		}
	}
	return append(front, rest...)
}

// flagsOf returns the flags of the command with a name, by each of their names.
func flagsOf(commands []*cli.Command, name string) map[string]cli.Flag {
	out := map[string]cli.Flag{}
	for _, c := range commands {
		if !c.HasName(name) {
			continue
		}
		for _, f := range c.Flags {
			for _, n := range f.Names() {
				out[n] = f
			}
		}
	}
	return out
}
