package command

import (
	"fmt"
	"slices"
	"strings"

	"outrigger.dev/pkg/completion"
)

// cutCompletion returns the words of a command line to complete, and whether a shell asks
// for that.
func cutCompletion(args []string) ([]string, bool) {
	last := len(args) - 1
	if last < 0 || args[last] != completion.Flag || slices.Contains(args, "--") {
		return nil, false
	}
	return args[:last], true
}

// complete prints what can follow the words: flags if the last one begins with "-", else
// commands.
func (c *Context) complete(words []string) error {
	// The last word can be half a flag.
	if c.parse(words) == nil {
		if sub := c.command.sub(c.set.Arg(0)); sub != nil {
			return c.below(sub).complete(c.set.Args()[1:])
		}
	}
	var out []string
	last := ""
	if len(words) > 0 {
		last = words[len(words)-1]
	}
	if strings.HasPrefix(last, "-") {
		out = c.flagsFor(last, words)
	} else {
		for _, sub := range c.command.Subcommands {
			out = append(out, sub.names()...)
		}
		if len(out) > 0 {
			out = append(out, helpNames()...)
		}
	}
	for _, word := range out {
		if _, err := fmt.Fprintln(c.stdout, word); err != nil {
			return err
		}
	}
	return nil
}

// flagsFor returns the flags that begin with a word and are not among the words yet.
func (c *Context) flagsFor(word string, words []string) []string {
	var out []string
	for _, f := range c.flags() {
		for _, name := range f.names() {
			name = dashes(name)
			if f.visible() && strings.HasPrefix(name, word) && !slices.Contains(words, name) {
				out = append(out, name)
			}
		}
	}
	return out
}
