package agent

import (
	"errors"
	"testing"

	"github.com/urfave/cli/v2"
)

func TestParseErrorOfAnotherForm(t *testing.T) {
	cases := map[string]struct{ in, want string }{
		"a message that a later library may use": {"new words", "new words"},
		"a flag of another type": {
			`invalid value "x" for flag -list: parse error`, `flag --list: invalid value "x": must be a value of the flag's type`,
		},
		"a flag that nobody knows": {
			`invalid value "x" for flag -none: parse error`, `flag --none: invalid value "x": must be a value of the flag's type`,
		},
	}
	flags := []cli.Flag{&cli.TimestampFlag{Name: "list"}}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := parseError("x", flags, errors.New(tc.in)); got.Error() != tc.want || exitCode(got) != 2 {
				t.Errorf("want %q with exit code 2, got %q with %d", tc.want, got, exitCode(got))
			}
		})
	}
}
