package agent

import (
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"outrigger.dev/pkg/completion"
	"outrigger.dev/pkg/text"
)

// completionCommand returns the command that prints the completion scripts.
func (s *session) completionCommand() *cli.Command {
	shells := completion.Shells()
	return &cli.Command{
		Name:      "completion",
		Usage:     "print a script that completes commands and flags in a shell: " + text.OneOf(shells),
		ArgsUsage: "SHELL", Description: completion.Hint(s.app.Name),
		Action: func(c *cli.Context) error {
			script, ok := completion.Script(c.Args().First(), s.app.Name)
			switch {
			case c.NArg() > 1:
				return Usagef("unexpected argument %q after \"completion %s\"", c.Args().Get(1), c.Args().First())
			case !ok:
				return Usagef("argument of completion: invalid value %q: must be %s", c.Args().First(), text.OneOf(shells))
			}
			if _, err := fmt.Fprint(s.stdout, script); err != nil {
				return fmt.Errorf("print the script: %w", err)
			}
			return nil
		},
	}
}

// complete prints what may follow words: flags if the last word is the begin of one, and
// otherwise commands, unless there is one already.
func (s *session) complete(words []string) error {
	flags, next := s.flags, []string{"help"}
	for _, cmd := range s.allCommands() {
		next = append(next, cmd.Name)
	}
	if i := slices.IndexFunc(words, func(w string) bool { return slices.Contains(next, w) }); i >= 0 {
		for _, cmd := range s.allCommands() {
			if cmd.HasName(words[i]) {
				flags = append(slices.Clone(flags), cmd.Flags...)
			}
		}
		next = nil
	}
	if len(words) > 0 && strings.HasPrefix(words[len(words)-1], "-") {
		next = []string{"--help"}
		for _, f := range flags {
			next = append(next, "--"+f.Names()[0])
		}
	}
	slices.Sort(next)
	for _, word := range next {
		if _, err := fmt.Fprintln(s.stdout, word); err != nil {
			return fmt.Errorf("print completions: %w", err)
		}
	}
	return nil
}
