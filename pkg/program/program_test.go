package program_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"

	"outrigger.dev/pkg/program"
	"outrigger.dev/pkg/version"
)

// newApp is a tool with a command, a group of commands and a command with arguments.
func newApp() *cli.App {
	none := func(*cli.Context) error { return nil }
	return program.Prepare(&cli.App{
		Name: "tool", Usage: "do things",
		Flags: []cli.Flag{&cli.BoolFlag{Name: "quiet"}},
		Commands: []*cli.Command{
			{Name: "show", Flags: []cli.Flag{&cli.BoolFlag{Name: "json"}}, Action: none},
			{Name: "set", ArgsUsage: "KEY=VALUE", Action: none},
			{Name: "pass", ArgsUsage: "WORDS…", SkipFlagParsing: true, Action: none},
			{Name: "group", Subcommands: []*cli.Command{{
				Name: "list", Usage: "list things",
				Flags: []cli.Flag{
					&cli.StringFlag{Name: "of", EnvVars: []string{"TOOL_OF"}},
					&cli.IntFlag{Name: "count", EnvVars: []string{"TOOL_COUNT"}, Value: 1},
				},
				Action: func(c *cli.Context) error {
					if of := c.String("of"); of == "nothing" {
						return fmt.Errorf("list: %w", program.BadFlag("of", of, "a thing"))
					}
					return nil
				},
			}}},
		},
	})
}

// TestMain is the tool itself if a test runs it by its name.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) != "tool" {
		os.Exit(m.Run())
	}
	if err := newApp().Run(os.Args); err != nil {
		_, _ = os.Stderr.WriteString(err.Error() + "\n")
		os.Exit(1)
	}
}

func run(args ...string) (string, error) {
	var out bytes.Buffer
	app := newApp()
	app.Writer, app.ErrWriter = &out, &out
	err := app.Run(append([]string{"tool"}, args...))
	return out.String(), err
}

func TestWrongCommandLines(t *testing.T) {
	for name, test := range map[string]struct{ line, want string }{
		"an unknown command":                {"shwo", `unknown command "shwo"; see "tool --help"`},
		"an unknown flag":                   {"--jsno", `flag provided but not defined: -jsno; see "tool --help"`},
		"an unknown flag of a command":      {"show --jsno", `show: flag provided but not defined: -jsno; see "tool show --help"`},
		"an argument of a command":          {"show all", `show: unexpected argument "all"; see "tool show --help"`},
		"an unknown command of a group":     {"group lsit", `group: unknown command "lsit"; see "tool group --help"`},
		"an argument below a group":         {"group list all", `group list: unexpected argument "all"; see "tool group list --help"`},
		"a flag without a value":            {"group list --of", `group list: flag needs an argument: -of; see "tool group list --help"`},
		"help of an unknown command":        {"help shwo", `unknown command "shwo"; see "tool --help"`},
		"help of an unknown subcommand":     {"help group lsit", `group: unknown command "lsit"; see "tool group --help"`},
		"help of a word after a command":    {"help show all", `show: unknown command "all"; see "tool show --help"`},
		"help in a group":                   {"group help lsit", `group: unknown command "lsit"; see "tool group --help"`},
		"a value of the wrong type":         {"group list --count x", `group list: flag --count: invalid value "x": must be an integer; see "tool group list --help"`},
		"a value that means nothing":        {"group list --of nothing", `list: flag --of: invalid value "nothing": must be a thing`},
		"a shell without a script":          {"completion tcsh", `completion: unknown command "tcsh"; see "tool completion --help"`},
		"an argument of a command's script": {"completion bash tool", `completion bash: unexpected argument "tool"; see "tool completion bash --help"`},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := run(strings.Fields(test.line)...)
			if err == nil || err.Error() != test.want || out != "" {
				t.Errorf("error %q and output %q, want %q and no output", err, out, test.want)
			}
		})
	}
}

func TestRightCommandLines(t *testing.T) {
	for name, test := range map[string]struct{ line, want string }{
		"the version":               {"--version", "tool version " + version.String() + "\n"},
		"help without a command":    {"", "do things"},
		"help of a group":           {"group", "list"},
		"a command":                 {"show --json", ""},
		"arguments that it takes":   {"set a=b c=d", ""},
		"a command of a group":      {"group list", ""},
		"help":                      {"help", "do things"},
		"help by its flag":          {"--help", "GLOBAL OPTIONS:\n   --quiet        (default: false)\n   --help, -h     show help\n   --version, -v  print the version\n"},
		"help of a group's flag":    {"group --help", "tool group [command options]"},
		"help of a command's flag":  {"show -h", "tool show [command options]"},
		"help of a command":         {"help show", "tool show [command options]"},
		"help of a group's command": {"help group list", "tool group list - list things"},
		"help below a group":        {"group help list", "tool group list - list things"},
		"help of a group alone":     {"group help", "tool group [command options]"},
		"help that is passed on":    {"help pass", "tool pass [command options] WORDS…"},
		"the script for bash":       {"completion bash", "complete -o default -F _tool_complete tool\n"},
		"the script for zsh":        {"completion zsh", "compdef _tool_complete tool\n"},
		"the script for fish":       {"completion fish", "complete --command tool "},
		"help of the command that":  {"completion", "source <(tool completion bash)"},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := run(strings.Fields(test.line)...)
			if err != nil || !strings.Contains(out, test.want) {
				t.Errorf("error %v and output %q, want %q", err, out, test.want)
			}
		})
	}
}

// TestVariablesAreNamed names the variable of a flag, which is what people have written.
func TestVariablesAreNamed(t *testing.T) {
	t.Setenv("TOOL_OF", "nothing")
	_, err := run("group", "list")
	if want := `list: environment variable TOOL_OF (flag --of): invalid value "nothing": must be a thing`; err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
	if _, err := run("group", "list", "--of", "it"); err != nil {
		t.Errorf("the command line does not take precedence: %v", err)
	}
	t.Setenv("TOOL_COUNT", "x")
	_, err = run("group", "list")
	if want := `group list: environment variable TOOL_COUNT (flag --count): invalid value "x": must be an integer; see "tool group list --help"`; err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
}
