package agent

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
)

// envFlag is what all flags of urfave/cli can be asked for.
type envFlag interface {
	cli.Flag
	cli.DocGenerationFlag
}

// CheckFlags returns an error for each flag that no environment variable of
// the same words sets: "--log-level" needs LOG_LEVEL, perhaps with words before
// or after it, as NVIDIA_DRIVER_ROOT for "--driver-root".
//
// A flag has one name and is not required: what cli.App does for those is not
// done here.
func CheckFlags(flags []cli.Flag) error {
	var errs []error
	for _, f := range flags {
		ef, ok := f.(envFlag)
		if !ok {
			errs = append(errs, fmt.Errorf("check flag --%s: type %T tells no environment variable", f.Names()[0], f))
			continue
		}
		if r, ok := f.(cli.RequiredFlag); len(f.Names()) > 1 || ok && r.IsRequired() {
			errs = append(errs, fmt.Errorf("check flag --%s: use App.Aliases for other names, and Usagef in New for a value that must be there", f.Names()[0]))
		}
		if !slices.ContainsFunc(ef.GetEnvVars(), func(env string) bool { return sameWords(f.Names()[0], env) }) {
			errs = append(errs, fmt.Errorf("check flag --%s: environment variables %q do not have its words: add %s",
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

// CheckApp returns what is wrong with the description of an agent: flags
// without environment variable, defined twice, or aliases that lead nowhere.
// Exec refuses such an App, and each agent calls CheckApp in a test.
func CheckApp(app App) error {
	s := &session{app: app}
	return s.setup()
}

func checkAliases(aliases map[string]string, flags map[string]cli.Flag) error {
	var errs []error
	for _, alias := range slices.Sorted(maps.Keys(aliases)) {
		if flags[aliases[alias]] == nil {
			errs = append(errs, fmt.Errorf("check alias --%s: there is no flag --%s", alias, aliases[alias]))
		}
		if flags[alias] != nil {
			errs = append(errs, fmt.Errorf("check alias --%s: it is a flag itself", alias))
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

// hoist moves the agent's own flags before the sub-command, so that they are
// understood on either side of it, and puts the flag's name in the place of an
// alias.
func hoist(args []string, flags map[string]cli.Flag, aliases map[string]string) []string {
	var front, rest []string
	for i := 0; i < len(args); i++ {
		if args[i] == "--" {
			rest = append(rest, args[i:]...)
			break
		}
		word, dashes := strings.CutPrefix(args[i], "-")
		name, value, hasValue := strings.Cut(strings.TrimPrefix(word, "-"), "=")
		if to := aliases[name]; dashes && to != "" {
			name = to
		}
		f := flags[name]
		if !dashes || f == nil {
			rest = append(rest, args[i])
			continue
		}
		token := "--" + name
		if hasValue {
			token += "=" + value
		}
		front = append(front, token)
		if takes, ok := f.(cli.DocGenerationFlag); ok && takes.TakesValue() && !hasValue && i+1 < len(args) {
			i++
			front = append(front, args[i])
		}
	}
	return append(front, rest...)
}
