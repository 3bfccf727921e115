package flagerr_test

import (
	"errors"
	"flag"
	"testing"

	"github.com/urfave/cli/v2"

	"outrigger.dev/pkg/flagerr"
)

func TestValue(t *testing.T) {
	flags := []cli.Flag{
		&cli.TimestampFlag{Name: "list"}, &cli.IntFlag{Name: "count", Aliases: []string{"c"}, EnvVars: []string{"COUNT"}}, &cli.BoolFlag{Name: "fast"},
	}
	for name, tc := range map[string]struct{ in, want string }{
		"a value of the wrong type": {
			`invalid value "x" for flag -count: parse error`, `flag --count: invalid value "x": must be an integer`,
		},
		"a flag of one letter": {
			`invalid value "x" for flag -c: parse error`, `flag -c: invalid value "x": must be an integer`,
		},
		"a flag without a value": {
			`invalid boolean value "x" for -fast: parse error`, `flag --fast: invalid value "x": must be true or false`,
		},
		"a variable": {
			`could not parse "x" as int value from environment variable "COUNT" for flag count: strconv.ParseInt: parsing "x": invalid syntax`,
			`environment variable COUNT (flag --count): invalid value "x": must be an integer`,
		},
		"a flag of another type": {
			`invalid value "x" for flag -list: parse error`, `flag --list: invalid value "x": must be a value of the flag's type`,
		},
		"a flag that nobody knows": {
			`invalid value "x" for flag -none: parse error`, `flag --none: invalid value "x": must be a value of the flag's type`,
		},
		"another error": {"flag provided but not defined: -x", ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := flagerr.Value(flags, errors.New(tc.in)); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

// TestVariables names the variable of a flag, unless the command line sets the flag too.
func TestVariables(t *testing.T) {
	t.Setenv("MODEL", "x")
	t.Setenv("COUNT", "3")
	flags := []cli.Flag{
		&cli.StringFlag{Name: "model", EnvVars: []string{"OTHER_MODEL", "MODEL"}}, &cli.IntFlag{Name: "count", EnvVars: []string{"COUNT"}},
		&cli.BoolFlag{Name: "fast", EnvVars: []string{"FAST"}},
	}
	set := flag.NewFlagSet("tool", flag.ContinueOnError)
	for _, f := range flags {
		if err := f.Apply(set); err != nil {
			t.Fatal(err)
		}
	}
	variables := flagerr.Variables(flags, []string{"count"})
	text := flagerr.Invalid("model", "x", "a or b") + "; " + flagerr.Invalid("count", "7", "1 or 2")
	want := `environment variable MODEL (flag --model): invalid value "x": must be a or b; flag --count: invalid value "7": must be 1 or 2`
	if got := flagerr.Named(text, variables); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
