package agent_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"

	"outrigger.dev/pkg/agent"
)

// toolApp has a command whose flags have short names, one of which the app has too.
func toolApp() agent.App {
	app := agent.App{
		Name:    "tool",
		Flags:   []cli.Flag{&cli.PathFlag{Name: "file", EnvVars: []string{"FILE"}}, &cli.BoolFlag{Name: "loud", EnvVars: []string{"LOUD"}}},
		Aliases: map[string]string{"f": "file", "l": "loud"},
	}
	app.Commands = []*cli.Command{{
		Name: "do", Aliases: []string{"perform"}, Usage: "do it", ArgsUsage: "[WORD]",
		Flags: []cli.Flag{
			&cli.PathFlag{Name: "file", Aliases: []string{"f"}, EnvVars: []string{"DO_FILE"}, Usage: "`FILE` to take"},
			&cli.BoolFlag{Name: "soft", Aliases: []string{"s"}, EnvVars: []string{"DO_SOFT"}, Usage: "do it gently"},
		},
		Action: func(c *cli.Context) error {
			if c.Path("file") == "fails" {
				return &agent.ExitError{Code: 7, Err: errors.New("no such thing")}
			}
			_, err := fmt.Fprintf(c.App.Writer, "file %q set %t soft %t loud %t app's %q", c.Path("file"), c.IsSet("file"), c.Bool("soft"), c.Bool("loud"), c.Lineage()[1].Path("file"))
			return err
		},
	}}
	return app
}

func TestFlagsOfCommands(t *testing.T) {
	for name, tc := range map[string]struct {
		words []string
		env   map[string]string
		want  string
	}{
		"short names":                              {words: []string{"do", "-f", "a", "-s"}, want: `file "a" set true soft true loud false app's ""`},
		"an alias of the command":                  {words: []string{"perform", "--f=a", "-s=false"}, want: `file "a" set true soft false loud false app's ""`},
		"a value that looks like a flag":           {words: []string{"do", "-f", "-s"}, want: `file "-s" set true soft false loud false app's ""`},
		"a value that is standard input":           {words: []string{"do", "-f", "-", "-l"}, want: `file "-" set true soft false loud true app's ""`},
		"the app's flag of the name is before it":  {words: []string{"-f", "x", "do", "-l", "--file", "a"}, want: `file "a" set true soft false loud true app's "x"`},
		"a variable":                               {words: []string{"do"}, env: map[string]string{"DO_FILE": "v", "DO_SOFT": "true"}, want: `file "v" set true soft true loud false app's ""`},
		"a short name goes before the variable":    {words: []string{"do", "-f=a"}, env: map[string]string{"DO_FILE": "v"}, want: `file "a" set true soft false loud false app's ""`},
		"nothing after two dashes is a flag of it": {words: []string{"do", "-s", "--", "-f"}, want: `file "" set false soft true loud false app's ""`},
	} {
		t.Run(name, func(t *testing.T) {
			for k, v := range tc.env {
				t.Setenv(k, v)
			}
			var out, errs bytes.Buffer
			if code := agent.Exec(t.Context(), toolApp(), append([]string{"tool"}, tc.words...), &out, &errs); code != 0 {
				t.Fatalf("exit code %d: %s", code, errs.String())
			}
			if out.String() != tc.want {
				t.Errorf("the command got %s, want %s", out.String(), tc.want)
			}
		})
	}
}

func TestAnAppThatIsNoAgent(t *testing.T) {
	var help, errs bytes.Buffer
	if code := agent.Exec(t.Context(), toolApp(), []string{"tool"}, &help, &errs); code != 0 {
		t.Fatalf("exit code %d: %s", code, errs.String())
	}
	for _, not := range []string{"agent runs", "--listen", "--tls", "probe"} {
		if strings.Contains(help.String(), not) {
			t.Errorf("the help of a program without an agent has %q:\n%s", not, help.String())
		}
	}
	help.Reset()
	if agent.Exec(t.Context(), toolApp(), []string{"tool", "do", "--help"}, &help, &errs) != 0 || !strings.Contains(help.String(), "--file FILE, -f FILE") {
		t.Errorf("the help of the command lacks the short names:\n%s", help.String())
	}
}

func TestExitCodes(t *testing.T) {
	other := toolApp()
	other.UsageCode = 1
	for name, tc := range map[string]struct {
		app   agent.App
		words []string
		want  int
		text  string
	}{
		"an error with a code":                  {toolApp(), []string{"do", "-f", "fails"}, 7, "tool: no such thing\n"},
		"a wrong command line":                  {toolApp(), []string{"do", "-x"}, 2, "tool: unknown flag -x: see 'tool do --help'\n"},
		"a wrong command line of another code":  {other, []string{"do", "-x"}, 1, "tool: unknown flag -x: see 'tool do --help'\n"},
		"an error with a code of another usage": {other, []string{"do", "-f", "fails"}, 7, "tool: no such thing\n"},
	} {
		t.Run(name, func(t *testing.T) {
			var out, errs bytes.Buffer
			if code := agent.Exec(t.Context(), tc.app, append([]string{"tool"}, tc.words...), &out, &errs); code != tc.want || errs.String() != tc.text {
				t.Errorf("exit code %d and %q, want %d and %q", code, errs.String(), tc.want, tc.text)
			}
		})
	}
}
