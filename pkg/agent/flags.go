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
	for _, f := range s.flags {
		why := ""
		switch i := f.(type) {
		case *ignored:
			why = i.why
		case *ignoredSwitch:
			why = i.why
		}
		if name := f.Names()[0]; why != "" && c.IsSet(name) {
			log.Info("flag has no effect", "flag", name, "why", why)
		}
	}
}

// CheckFlags returns an error for each flag without an environment variable of the
// same words: "--log-level" needs LOG_LEVEL, with or without words before or after
// it, for example NVIDIA_DRIVER_ROOT for "--driver-root". It also rejects flags with
// several names, for which an agent has App.Aliases, and required flags, which need code
// of cli.App that the chassis does not run.
func CheckFlags(flags []cli.Flag) error {
	errs := []error{checkVariables(flags)}
	for _, f := range flags {
		if len(f.Names()) > 1 {
			errs = append(errs, fmt.Errorf("check flag --%s: use App.Aliases for more names", f.Names()[0]))
		}
	}
	return errors.Join(errs...)
}

// checkVariables is CheckFlags for the flags of a command, which may have more names.
func checkVariables(flags []cli.Flag) error {
	var errs []error
	for _, f := range flags {
		ef, ok := f.(envFlag)
		if !ok {
			errs = append(errs, fmt.Errorf("check flag --%s: type %T has no environment variables", f.Names()[0], f))
			continue
		}
		if r, ok := f.(cli.RequiredFlag); ok && r.IsRequired() {
			errs = append(errs, fmt.Errorf("check flag --%s: use Usagef for a required value", f.Names()[0]))
		}
		if !slices.ContainsFunc(ef.GetEnvVars(), func(env string) bool { return sameWords(f.Names()[0], env) }) {
			errs = append(errs, fmt.Errorf("check flag --%s: no environment variable in %q has its words: add %s",
				f.Names()[0], ef.GetEnvVars(), envName(f.Names()[0])))
		}
	}
	return errors.Join(errs...)
}

func envName(flag string) string {
	return strings.ToUpper(strings.NewReplacer("-", "_", ".", "_").Replace(flag))
}

func sameWords(flag, env string) bool {
	return strings.Contains("_"+env+"_", "_"+envName(flag)+"_")
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

// byName indexes flags by each of their names.
func byName(flags []cli.Flag) (map[string]cli.Flag, error) {
	m := map[string]cli.Flag{}
	var errs []error
	for _, f := range flags {
		for _, n := range f.Names() {
			if m[n] != nil {
				errs = append(errs, fmt.Errorf("check flag --%s: it is defined twice", n))
			}
			m[n] = f
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
