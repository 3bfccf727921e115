// Package flagerr words the errors about flags of agents and tools: each names the flag, and
// the environment variable if that has set it.
package flagerr

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
)

// Dashed returns the name of a flag as people write it.
func Dashed(name string) string {
	if len(name) == 1 {
		return "-" + name
	}
	return "--" + name
}

// Invalid returns the error about a flag with a value that it cannot have; allowed
// describes the values that it can have.
func Invalid(flag, value, allowed string) string {
	return fmt.Sprintf("flag %s: invalid value %q: must be %s", Dashed(flag), value, allowed)
}

// Value returns an error of the flag parser about a value in the form of Invalid. It returns
// "" for any other error.
func Value(flags []cli.Flag, err error) string {
	msg := err.Error()
	var value, name string
	if _, e := fmt.Sscanf(msg, "invalid value %q for flag -%s", &value, &name); e == nil {
		name = strings.TrimSuffix(name, ":")
		return Invalid(name, value, kind(flags, name))
	}
	if _, e := fmt.Sscanf(msg, "invalid boolean value %q for -%s", &value, &name); e == nil {
		return Invalid(strings.TrimSuffix(name, ":"), value, "true or false")
	}
	// From an environment variable: could not parse "x" as int value from
	// environment variable "REPLICAS" for flag replicas: parse error.
	rest, ok := strings.CutPrefix(msg, "could not parse ")
	if !ok {
		return ""
	}
	if _, e := fmt.Sscanf(rest, "%q", &value); e != nil {
		return ""
	}
	name = between(rest, " for flag ", ":")
	env := between(rest, "environment variable \"", "\"")
	return Named(Invalid(name, value, kind(flags, name)), map[string]string{name: env})
}

// Variables returns the environment variables that have set flags, by the first name of the
// flag. onLine has the names of the flags that the command line sets: it takes precedence.
func Variables(flags []cli.Flag, onLine []string) map[string]string {
	out := map[string]string{}
	for _, f := range flags {
		d, ok := f.(cli.DocGenerationFlag)
		if !ok || !f.IsSet() || slices.ContainsFunc(f.Names(), func(n string) bool { return slices.Contains(onLine, n) }) {
			continue
		}
		for _, env := range d.GetEnvVars() {
			if _, ok := os.LookupEnv(env); ok {
				out[f.Names()[0]] = env
				break
			}
		}
	}
	return out
}

// Named makes an error about flags name the variables that have set them: people search for
// what they wrote.
func Named(text string, variables map[string]string) string {
	for name, env := range variables {
		flag := "flag " + Dashed(name)
		text = strings.ReplaceAll(text, flag+": ", "environment variable "+env+" ("+flag+"): ")
	}
	return text
}

func between(s, before, after string) string {
	_, s, _ = strings.Cut(s, before)
	s, _, _ = strings.Cut(s, after)
	return s
}

// kind describes the values that a flag can have.
func kind(flags []cli.Flag, name string) string {
	i := slices.IndexFunc(flags, func(f cli.Flag) bool { return slices.Contains(f.Names(), name) })
	if i < 0 {
		return "a value of the flag's type"
	}
	switch flags[i].(type) {
	case *cli.BoolFlag:
		return "true or false"
	case *cli.IntFlag, *cli.Int64Flag:
		return "an integer"
	case *cli.UintFlag, *cli.Uint64Flag:
		return "an integer of at least 0"
	case *cli.IntSliceFlag:
		return "a comma-separated list of integers"
	case *cli.Float64Flag:
		return "a number"
	case *cli.DurationFlag:
		return "a duration such as 500ms, 30s or 5m"
	default:
		return "a value of the flag's type"
	}
}
