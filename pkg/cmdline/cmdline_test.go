package cmdline_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/urfave/cli/v2"

	"outrigger.dev/pkg/cmdline"
	"outrigger.dev/pkg/cmdline/cmdlinetest"
)

// newApp is a tool with commands, a group, and flags of all kinds.
func newApp(stdout, stderr io.Writer) *cli.App {
	none := func(*cli.Context) error { return nil }
	var words []string
	return &cli.App{
		Name: "tool", Usage: "do things", Writer: stdout, ErrWriter: stderr,
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "quiet", Aliases: []string{"q"}, EnvVars: []string{"TOOL_QUIET"}},
			&cli.UintFlag{Name: "limit"},
			&cli.PathFlag{Name: "file", Aliases: []string{"f"}, EnvVars: []string{"TOOL_FILE"}},
		},
		Commands: []*cli.Command{
			{Name: "show", Flags: []cli.Flag{&cli.BoolFlag{Name: "json"}}, Action: none},
			{Name: "set", ArgsUsage: "KEY=VALUE", Action: none},
			{Name: "pass", ArgsUsage: "WORDS…", SkipFlagParsing: true, Action: func(c *cli.Context) error {
				_, err := fmt.Fprintf(stdout, "%q", c.Args().Slice())
				return err
			}},
			{Name: "group", Subcommands: []*cli.Command{{
				Name: "list", Aliases: []string{"ls"}, Usage: "list things", ArgsUsage: "[WORD]",
				Flags: []cli.Flag{
					&cli.PathFlag{Name: "file", Aliases: []string{"f"}, EnvVars: []string{"TOOL_LIST_FILE"}},
					cmdline.Enum(&cli.StringFlag{Name: "of", EnvVars: []string{"TOOL_OF", "OF"}, Value: "all"}, "all", "some"),
					cmdline.Absolute(&cli.PathFlag{Name: "root", EnvVars: []string{"TOOL_ROOT"}, Destination: new(string)}),
					cmdline.Positive(&cli.DurationFlag{Name: "wait"}),
					cmdline.Check(&cli.IntFlag{Name: "count", EnvVars: []string{"TOOL_COUNT"}, Value: 1}, "1 to 3", func(n int) bool { return 1 <= n && n <= 3 }),
					cmdline.List(&cli.StringSliceFlag{Name: "in", EnvVars: []string{"TOOL_IN"}}, &words),
				},
				Action: func(c *cli.Context) error {
					switch c.Path("file") {
					case "none":
						return fmt.Errorf("flag --file: %w", &os.PathError{Op: "open", Path: "none", Err: syscall.ENOENT})
					case "secret":
						return &os.PathError{Op: "open", Path: "secret", Err: syscall.EACCES}
					case "fixed":
						return fmt.Errorf("%w: run make", &os.PathError{Op: "open", Path: "fixed", Err: syscall.ENOENT})
					case "seven":
						return cli.Exit(errors.New("first\nsecond"), 7)
					}
					_, err := fmt.Fprintf(stdout, "quiet=%t file=%q of=%s in=%q args=%q", c.Bool("quiet"), c.Path("file"), c.String("of"), words, c.Args().Slice())
					return err
				},
			}}},
		},
	}
}

// TestMain is the tool itself if a test runs it by its name.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) != "tool" {
		os.Exit(m.Run())
	}
	os.Exit(cmdline.Exec(context.Background(), newApp(os.Stdout, os.Stderr), os.Args))
}

func TestCommandLines(t *testing.T) {
	p := cmdlinetest.Program{Name: "tool", Usage: 1, Run: func(args []string, stdout, stderr io.Writer) int {
		return cmdline.Exec(t.Context(), newApp(stdout, stderr), args)
	}}
	p.Tool(t, map[string]cmdlinetest.Case{
		"nothing prints help":                  {Want: []string{"do things"}},
		"a group prints help":                  {Line: "group", Want: []string{"tool group", "list"}},
		"help of a command by its flag":        {Line: "show -h", Want: []string{"tool show"}},
		"help in a group":                      {Line: "group help list", Want: []string{"tool group list"}},
		"help of no command in a group":        {Line: "group help lsit", Code: 1, Want: []string{`"lsit"`}},
		"an unknown flag of a command":         {Line: "show --jsno", Code: 1, Want: []string{"unknown flag --jsno: did you mean --json?: see 'tool show --help'"}},
		"an unknown flag of the app":           {Line: "--quite", Code: 1, Want: []string{"unknown flag --quite: did you mean --quiet?: see 'tool --help'"}},
		"a flag like no other":                 {Line: "--nonsense", Code: 1, Want: []string{"unknown flag --nonsense: see 'tool --help'"}},
		"an unknown command of the app":        {Line: "gruop", Code: 1, Want: []string{"unknown command \"gruop\": did you mean group?: see 'tool --help'"}},
		"an unknown command of a group":        {Line: "group lsit", Code: 1, Want: []string{`unknown command "lsit": did you mean list?: see 'tool group --help'`}},
		"an argument of a command":             {Line: "show all", Code: 1, Want: []string{`"all"`, "'tool show --help'"}},
		"a flag without a value":               {Line: "group list --of", Code: 1, Want: []string{"flag --of needs a value: see 'tool group list --help'"}},
		"two names of a flag":                  {Line: "group list -f 1 --file 2", Code: 1, Want: []string{"two forms of the same flag"}},
		"options on both sides":                {Line: "group ls -f a -q x", Want: []string{`quiet=true file="a" of=all in=[] args=["x"]`}},
		"the app's option of the same name":    {Line: "-f x group ls -q --of=some", Want: []string{`quiet=true file="" of=some`}},
		"a value that looks like an option":    {Line: "group ls -f -q", Want: []string{`quiet=false file="-q"`}},
		"a value that is standard input":       {Line: "group ls -f - -q", Want: []string{`quiet=true file="-"`}},
		"no option after two dashes":           {Line: "group ls -- -q", Want: []string{`quiet=false file="" of=all in=[] args=["-q"]`}},
		"options that are arguments":           {Line: "-q pass --json -q -- -x", Want: []string{`["--json" "-q" "--" "-x"]`}},
		"one dash":                             {Line: "group ls -of some -in a,,b -in= -in c", Want: []string{`of=some in=["a" "b" "c"]`}},
		"an empty list by variable":            {Line: "group ls", Env: map[string]string{"TOOL_IN": ""}, Want: []string{`in=[]`}},
		"a word":                               {Line: "group ls --of most", Code: 1, Want: []string{`flag --of (environment variable TOOL_OF): invalid value "most": must be all or some`}},
		"a word by the second variable":        {Line: "group ls", Env: map[string]string{"OF": "most"}, Code: 1, Want: []string{`flag --of (environment variable OF): invalid value "most"`}},
		"the command line goes first":          {Line: "group ls --of some", Env: map[string]string{"OF": "most"}, Want: []string{"of=some"}},
		"a path":                               {Line: "group ls --root x", Code: 1, Want: []string{`flag --root (environment variable TOOL_ROOT): invalid value "x": must be an absolute path`}},
		"a duration":                           {Line: "group ls --wait -1s", Code: 1, Want: []string{`flag --wait: invalid value "-1s": must be a duration of more than 0`}},
		"a number":                             {Line: "group ls --count 4", Code: 1, Want: []string{`invalid value "4": must be 1 to 3`}},
		"a number that is none":                {Line: "group ls --count x", Code: 1, Want: []string{`flag --count (environment variable TOOL_COUNT): invalid value "x": must be an integer: see 'tool group list --help'`}},
		"a duration without a unit":            {Line: "group ls --wait 5", Code: 1, Want: []string{`flag --wait: invalid value "5": must be a duration such as 30s or 5m: see`}},
		"a flag that is on or off":             {Line: "--quiet=maybe", Code: 1, Want: []string{`flag --quiet (environment variable TOOL_QUIET): invalid value "maybe": must be true or false: see 'tool --help'`}},
		"a number that is none by variable":    {Line: "group ls", Env: map[string]string{"TOOL_COUNT": "x"}, Code: 1, Want: []string{`flag --count (environment variable TOOL_COUNT): invalid value "x": must be an integer: see`}},
		"an app's flag by a bad variable":      {Line: "show", Env: map[string]string{"TOOL_QUIET": "maybe"}, Code: 1, Want: []string{`flag --quiet (environment variable TOOL_QUIET): invalid value "maybe": must be true or false: see 'tool show --help'`}},
		"an unknown flag after an argument":    {Line: "group ls x --nonsense", Want: []string{`args=["x" "--nonsense"]`}},
		"the app's option without a value":     {Line: "group ls x --limit", Code: 1, Want: []string{"flag --limit needs a value: see 'tool group list --help'"}},
		"a negative number":                    {Line: "--limit -1 show", Code: 1, Want: []string{`flag --limit: invalid value "-1": must be an integer of at least 0: see 'tool --help'`}},
		"an action's error names the variable": {Line: "group ls --file none", Code: 1, Want: []string{"flag --file (environment variable TOOL_LIST_FILE): open none: no such file or directory: create it, or use another path; in a pod, mount it\n"}},
		"a file without rights":                {Line: "group ls --file secret", Code: 1, Want: []string{"open secret: permission denied: give the user of this process access, or run as root\n"}},
		"a missing file with a fix":            {Line: "group ls --file fixed", Code: 1, Want: []string{"open fixed: no such file or directory: run make\n"}},
		"a code of its own, in one line":       {Line: "group ls --file seven", Code: 7, Want: []string{"tool: first; second\n"}},
	})
}

func TestOptionsAnywhere(t *testing.T) {
	p := cmdlinetest.Program{Name: "tool", Usage: 1, Run: func(args []string, stdout, stderr io.Writer) int {
		app := newApp(stdout, stderr)
		app.Metadata = map[string]any{cmdline.OptionsAnywhere: true}
		return cmdline.Exec(t.Context(), app, args)
	}}
	p.Tool(t, map[string]cmdlinetest.Case{
		"after an argument":          {Line: "group ls x --of some -q y", Want: []string{`quiet=true file="" of=some in=[] args=["x" "y"]`}},
		"before and after":           {Line: "group ls --in a x --in b", Want: []string{`in=["a" "b"] args=["x"]`}},
		"a wrong value":              {Line: "group ls x --of most", Code: 1, Want: []string{`flag --of (environment variable TOOL_OF): invalid value "most"`}},
		"no value":                   {Line: "group ls x --of", Code: 1, Want: []string{"flag --of needs a value"}},
		"an unknown one":             {Line: "group ls x --counts", Code: 1, Want: []string{"unknown flag --counts: did you mean --count?"}},
		"no option after two dashes": {Line: "group ls x -- --of", Want: []string{`args=["x" "--of"]`}},
		"a word like a command":      {Line: "group ls x group", Want: []string{`args=["x" "group"]`}},
		"a command that takes all":   {Line: "pass a --json", Want: []string{`["a" "--json"]`}},
	})
}

func scriptOf(t *testing.T, shell string) string {
	t.Helper()
	var out, errs bytes.Buffer
	if code := cmdline.Exec(t.Context(), newApp(&out, &errs), []string{"tool", "completion", shell}); code != 0 {
		t.Fatalf("exit code %d: %s", code, errs.String())
	}
	return out.String()
}
