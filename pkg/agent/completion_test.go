package agent_test

import (
	"bytes"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"

	"outrigger.dev/pkg/agent"
	"outrigger.dev/pkg/completion"
)

func TestCompletion(t *testing.T) {
	app := agent.App{
		Name:     "test-agent",
		Flags:    []cli.Flag{&cli.BoolFlag{Name: "fast", EnvVars: []string{"FAST"}}},
		New:      func(*cli.Context, *slog.Logger) (*agent.Agent, error) { t.Error("the agent runs"); return nil, nil },
		Commands: []*cli.Command{{Name: "check", Flags: []cli.Flag{&cli.BoolFlag{Name: "deep", EnvVars: []string{"DEEP"}}}}},
	}
	run := func(words ...string) (int, string) {
		var out bytes.Buffer
		code := agent.Exec(t.Context(), app, append([]string{"test-agent"}, words...), &out, &out)
		return code, out.String()
	}
	for name, tc := range map[string]struct {
		words       []string
		has, hasNot string
	}{
		"commands":              {nil, "check", "--fast"},
		"flags":                 {[]string{"-"}, "--fast", "--deep"},
		"flags of a command":    {[]string{"check", "--de"}, "--deep", "check"},
		"nothing after command": {[]string{"check"}, "", "check"},
	} {
		t.Run(name, func(t *testing.T) {
			code, out := run(append(tc.words, completion.Flag)...)
			lines := strings.Split(out, "\n")
			if code != 0 || !slices.Contains(lines, tc.has) || slices.Contains(lines, tc.hasNot) {
				t.Errorf("exit code %d, completes to %q, want %q and not %q", code, lines, tc.has, tc.hasNot)
			}
		})
	}
	if code, out := run("completion", "bash"); code != 0 || !strings.Contains(out, "complete -o default -F _test-agent_complete test-agent\n") {
		t.Errorf("exit code %d: %s", code, out)
	}
	for line, want := range map[string]string{
		"completion":          `argument of completion: invalid value "": must be bash, zsh or fish`,
		"completion tcsh":     `argument of completion: invalid value "tcsh": must be bash, zsh or fish`,
		"completion bash zsh": `unexpected argument "zsh" after "completion bash"`,
	} {
		if code, out := run(strings.Fields(line)...); code != 2 || out != "test-agent: "+want+"\n" {
			t.Errorf("%s: exit code %d: %s", line, code, out)
		}
	}
}
