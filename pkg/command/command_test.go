package command_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"outrigger.dev/pkg/command"
	"outrigger.dev/pkg/completion"
	"outrigger.dev/pkg/version"
)

// newTool is a program with a command, commands with arguments, and a group that is a
// command itself. Its command show prints its flags.
func newTool(out *bytes.Buffer) *command.Command {
	none := func(*command.Context) error { return nil }
	show := func(c *command.Context) error {
		if of := c.String("of"); of == "nothing" {
			return fmt.Errorf("flag --of: invalid value %q: must be a thing", of)
		}
		_, err := fmt.Fprintf(out, "json=%v of=%s in=%q wait=%s quiet=%v set=%v,%v,%v args=%q", c.Bool("json"), c.String("of"), c.StringSlice("in"), c.Duration("wait"),
			c.Bool("quiet"), c.IsSet("of"), c.IsSet("in"), c.IsSet("none"), c.Args())
		return err
	}
	return &command.Command{
		Name: "tool", Usage: "do things",
		Flags: []command.Flag{&command.BoolFlag{Name: "quiet", Aliases: []string{"q"}, EnvVars: []string{"TOOL_QUIET"}, Usage: "say less"}},
		Subcommands: []*command.Command{
			{Name: "show", ArgsUsage: "NAME…", Usage: "print flags", Description: "Two\nlines.", Action: show, Flags: []command.Flag{
				&command.BoolFlag{Name: "json", Usage: "in JSON"},
				&command.StringFlag{Name: "of", Aliases: []string{"o", "from"}, Value: "all", EnvVars: []string{"TOOL_OF", "OF"}, Usage: "what `NAME` is of"},
				&command.StringSliceFlag{Name: "in", Value: []string{"a", "b"}, EnvVars: []string{"TOOL_IN"}, Usage: "`FOLDER`; can be repeated"},
				&command.DurationFlag{Name: "wait", Value: time.Minute, Usage: "how long"},
				&command.PathFlag{Name: "old", Hidden: true},
			}},
			{Name: "group", Aliases: []string{"g"}, Usage: "more", Action: none, Subcommands: []*command.Command{
				{Name: "list", Usage: "print all", Action: none, Flags: []command.Flag{&command.StringFlag{Name: "of", DefaultText: "all of them"}}},
			}},
			{Name: "pass", ArgsUsage: "ARGUMENTS", SkipFlagParsing: true, Action: func(c *command.Context) error {
				_, err := fmt.Fprintf(out, "%q", c.Args())
				return err
			}},
		},
	}
}

func run(line string) (string, error) {
	var out bytes.Buffer
	err := command.Run(context.Background(), newTool(&out), append([]string{"tool"}, strings.Fields(line)...), &out)
	return out.String(), err
}

func TestWrongCommandLines(t *testing.T) {
	for name, test := range map[string]struct{ line, want string }{
		"an unknown command":            {"shwo", `unknown command "shwo"; see "tool --help"`},
		"an unknown flag":               {"--jsno", `flag provided but not defined: -jsno; see "tool --help"`},
		"an unknown flag of a command":  {"show --jsno", `show: flag provided but not defined: -jsno; see "tool show --help"`},
		"an unknown command of a group": {"g lsit", `group: unknown command "lsit"; see "tool group --help"`},
		"an argument of a command":      {"group list all", `group list: unexpected argument "all"; see "tool group list --help"`},
		"help of two commands":          {"help show group", `show: unknown command "group"; see "tool show --help"`},
		"a flag without a value":        {"group list --of", `group list: flag needs an argument: -of; see "tool group list --help"`},
		"two names of a flag":           {"show -o 1 --from 2", `show: -from and -o are the same flag: use one; see "tool show --help"`},
		"a value that is no time":       {"show --wait soon", `show: flag --wait: invalid value "soon": must be a duration such as 500ms, 30s or 5m; see "tool show --help"`},
		"a value that is no switch":     {"show --json=perhaps", `show: flag --json: invalid value "perhaps": must be true or false; see "tool show --help"`},
		"a value that means nothing":    {"show --from nothing", `flag --of: invalid value "nothing": must be a thing`},
		"help of an unknown command":    {"help shwo", `unknown command "shwo"; see "tool --help"`},
		"a shell without a script":      {"completion tcsh", `completion: unknown command "tcsh"; see "tool completion --help"`},
		"the version of a command":      {"show --version", `show: flag provided but not defined: -version; see "tool show --help"`},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := run(test.line)
			if err == nil || err.Error() != test.want || out != "" {
				t.Errorf("error %q and output %q, want %q and no output", err, out, test.want)
			}
		})
	}
}

func TestRightCommandLines(t *testing.T) {
	const defaults = `json=false of=all in=["a" "b"] wait=1m0s quiet=false set=false,false,false args=[]`
	for name, test := range map[string]struct {
		line string
		env  map[string]string
		want string
	}{
		"the version":               {line: "--version", want: "tool version " + version.String() + "\n"},
		"the defaults":              {line: "show", want: defaults},
		"flags":                     {line: "-q show --json -o x --in c,d --in e --wait=2s n m", want: `json=true of=x in=["c" "d" "e"] wait=2s quiet=true set=true,true,false args=["n" "m"]`},
		"flags with one dash":       {line: "show -json -from x", want: `json=true of=x in=["a" "b"] wait=1m0s quiet=false set=true,false,false args=[]`},
		"variables":                 {line: "show", env: map[string]string{"OF": "x", "TOOL_IN": "c, d", "TOOL_QUIET": "true"}, want: `json=false of=x in=["c" "d"] wait=1m0s quiet=true set=true,true,false args=[]`},
		"the first variable counts": {line: "show", env: map[string]string{"TOOL_OF": "", "OF": "x", "TOOL_QUIET": ""}, want: `json=false of= in=["a" "b"] wait=1m0s quiet=false set=true,false,false args=[]`},
		"a flag before a variable":  {line: "show -o y --in e", env: map[string]string{"OF": "x", "TOOL_IN": "c"}, want: `json=false of=y in=["e"] wait=1m0s quiet=false set=true,true,false args=[]`},
		"flags that are arguments":  {line: "pass --json -- -x", want: `["--json" "--" "-x"]`},
		"a group":                   {line: "group", want: ""},
		"the script for bash":       {line: "completion bash", want: mustScript("bash")},
	} {
		t.Run(name, func(t *testing.T) {
			for k, v := range test.env {
				t.Setenv(k, v)
			}
			if out, err := run(test.line); err != nil || out != test.want {
				t.Errorf("error %v and output\n%s, want\n%s", err, out, test.want)
			}
		})
	}
}

func mustScript(shell string) string {
	script, _ := completion.Script(shell, "tool")
	return script
}

func TestAVariableThatIsWrong(t *testing.T) {
	t.Setenv("TOOL_QUIET", "maybe")
	_, err := run("show")
	if want := `environment variable TOOL_QUIET (flag --quiet): invalid value "maybe": must be true or false; see "tool --help"`; err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
}

// TestAVariableThatMeansNothing names the variable, unless the command line sets the flag too.
func TestAVariableThatMeansNothing(t *testing.T) {
	t.Setenv("OF", "nothing")
	_, err := run("show")
	if want := `environment variable OF (flag --of): invalid value "nothing": must be a thing`; err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
	_, err = run("show --of nothing")
	if want := `flag --of: invalid value "nothing": must be a thing`; err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
}

func TestHelp(t *testing.T) {
	const group = `NAME:
   tool group - more

USAGE:
   tool group [command options]

COMMANDS:
   list     print all
   help, h  Shows a list of commands or help for one command

OPTIONS:
   --help, -h  show help
`
	const show = `NAME:
   tool show - print flags

USAGE:
   tool show [command options] NAME…

DESCRIPTION:
   Two
   lines.

OPTIONS:
   --json                           in JSON (default: false)
   --of NAME, -o NAME, --from NAME  what NAME is of (default: "all") [$TOOL_OF, $OF]
   --in FOLDER [ --in FOLDER ]      FOLDER; can be repeated (default: "a", "b") [$TOOL_IN]
   --wait value                     how long (default: 1m0s)
   --help, -h                       show help
`
	program := `NAME:
   tool - do things

USAGE:
   tool [global options] command [command options]

VERSION:
   ` + version.String() + `

COMMANDS:
   show        print flags
   group, g    more
   pass        
   completion  print a script that completes commands and flags in a shell
   help, h     Shows a list of commands or help for one command

GLOBAL OPTIONS:
   --quiet, -q    say less (default: false) [$TOOL_QUIET]
   --help, -h     show help
   --version, -v  print the version
`
	for line, want := range map[string]string{
		"": program, "help": program, "-h": program, "--quiet h": program,
		"group --help": group, "g help": group, "help group": group,
		"show --help": show, "help show": show, "show help": show,
	} {
		t.Run(line, func(t *testing.T) {
			out, err := run(line)
			if err != nil || out != want {
				t.Errorf("error %v and output\n%s, want\n%s", err, out, want)
			}
		})
	}
	below, err := run("help group list")
	if want, _ := run("group list --help"); err != nil || below != want {
		t.Errorf("error %v and output\n%s, want\n%s", err, below, want)
	}
}

func TestCompletion(t *testing.T) {
	for line, want := range map[string]string{
		"":                     "show group g pass completion help h",
		"group":                "list help h",
		"show":                 "",
		"-":                    "--quiet -q --help -h --version -v",
		"show -":               "--json --of -o --from --in --wait --help -h",
		"show --json --j":      "",
		"show --w":             "--wait",
		"show --of":            "",
		"show --nonsense --js": "--json",
		"group list --o":       "--of",
	} {
		t.Run(line, func(t *testing.T) {
			out, err := run(strings.TrimSpace(line + " " + completion.Flag))
			if got := strings.Join(strings.Fields(out), " "); err != nil || got != want {
				t.Errorf("error %v, completes to %q, want %q", err, got, want)
			}
		})
	}
}
