// Package cmdlinetest checks the behavior that users can rely on in the command line of a program:
// exit codes, errors of one line that name the problem, and the accepted words.
package cmdlinetest

import (
	"bytes"
	"io"
	"maps"
	"strings"
	"testing"
)

// Program is a program that runs in the process of the test.
type Program struct {
	// Name is the first argument. Each error begins with it.
	Name string
	// Run returns the exit code.
	Run func(args []string, stdout, stderr io.Writer) int
	// Usage is the exit code for a wrong command line.
	Usage int
}

// Case is a command line.
type Case struct {
	// Line has the arguments, with spaces between them.
	Line string
	Env  map[string]string
	// Code is the exit code. If it is not 0, standard error has one line.
	Code int
	// Want holds parts of that line, or of standard output.
	Want []string
}

// Check runs the cases.
func (p Program) Check(t *testing.T, cases map[string]Case) {
	t.Helper()
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			for k, v := range c.Env {
				t.Setenv(k, v)
			}
			var stdout, stderr bytes.Buffer
			code := p.Run(append([]string{p.Name}, strings.Fields(c.Line)...), &stdout, &stderr)
			if code != c.Code {
				t.Errorf("exit code %d, want %d: %s", code, c.Code, stderr.String())
			}
			text := stdout.String()
			if c.Code != 0 {
				text = stderr.String()
				if !strings.HasPrefix(text, p.Name+": ") || strings.Count(text, "\n") != 1 {
					t.Errorf("want one line of %s on standard error, got %q", p.Name, text)
				}
			}
			for _, want := range c.Want {
				if !strings.Contains(text, want) {
					t.Errorf("no %q in %q", want, text)
				}
			}
		})
	}
}

// Tool checks the behavior of every program. option is an option with a value that each command
// accepts on either side, or "". command is a command without arguments that ends at once.
func (p Program) Tool(t *testing.T, cases map[string]Case) {
	t.Helper()
	all := map[string]Case{
		"the version":          {Line: "--version", Want: []string{p.Name}},
		"the version, short":   {Line: "-v", Want: []string{p.Name}},
		"help":                 {Line: "--help", Want: []string{p.Name, "--help"}},
		"help, short":          {Line: "-h", Want: []string{p.Name, "--help"}},
		"help, one dash":       {Line: "-help", Want: []string{p.Name, "--help"}},
		"help, as a command":   {Line: "help", Want: []string{p.Name, "--help"}},
		"help of a command":    {Line: "help completion", Want: []string{p.Name + " completion"}},
		"help of no command":   {Line: "help nonsense", Code: p.Usage, Want: []string{"nonsense"}},
		"a script for bash":    {Line: "completion bash", Want: []string{p.Name}},
		"a script for zsh":     {Line: "completion zsh", Want: []string{p.Name}},
		"a script for fish":    {Line: "completion fish", Want: []string{p.Name}},
		"no script":            {Line: "completion tcsh", Code: p.Usage, Want: []string{"tcsh"}},
		"a script and a word":  {Line: "completion bash nonsense", Code: p.Usage, Want: []string{"nonsense"}},
		"an unknown flag":      {Line: "--nonsense=1", Code: p.Usage, Want: []string{"-nonsense", "--help"}},
		"an unknown command":   {Line: "nonsense", Code: p.Usage, Want: []string{"nonsense"}},
		"a flag of no command": {Line: "completion --nonsense", Code: p.Usage, Want: []string{"-nonsense", "completion --help"}},
	}
	maps.Copy(all, cases)
	p.Check(t, all)
}

// Agent checks the behavior of every agent.
func (p Program) Agent(t *testing.T, cases map[string]Case) {
	t.Helper()
	all := map[string]Case{
		"the command version":               {Line: "version", Want: []string{p.Name + " ", "linux/"}},
		"a word too many":                   {Line: "version nonsense", Code: p.Usage, Want: []string{"nonsense"}},
		"an option before a command":        {Line: "--log-format=json --log-level debug version", Want: []string{p.Name}},
		"an option after a command":         {Line: "version -log-format json --log-level=debug", Want: []string{p.Name}},
		"a level that is none":              {Line: "--log-level loud", Code: p.Usage, Want: []string{"--log-level", `"loud"`, "debug, info, warn or error"}},
		"a level that is none, one dash":    {Line: "-log-level=loud", Code: p.Usage, Want: []string{"--log-level", `"loud"`}},
		"a level that is none, by variable": {Env: map[string]string{"LOG_LEVEL": "loud"}, Code: p.Usage, Want: []string{"--log-level", "LOG_LEVEL", `"loud"`}},
		"a format that is none":             {Line: "--log-format xml", Code: p.Usage, Want: []string{"--log-format", `"xml"`, "text or json"}},
		"an address that is none":           {Line: "--listen 9410", Code: p.Usage, Want: []string{"--listen", `"9410"`}},
		"an address by variable":            {Env: map[string]string{"LISTEN_ADDRESS": "9410"}, Code: p.Usage, Want: []string{"--listen", "LISTEN_ADDRESS", `"9410"`}},
		"a page that is none":               {Line: "probe nonsense", Code: p.Usage, Want: []string{"nonsense"}},
		"an option without its value":       {Line: "--log-level", Code: p.Usage, Want: []string{"-log-level"}},
	}
	maps.Copy(all, cases)
	p.Tool(t, all)
}
