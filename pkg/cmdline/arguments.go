package cmdline

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"outrigger.dev/pkg/text"
)

// arguments is the part of a command line that arrange has read.
type arguments struct {
	app *cli.App
	// command has the names of the program and of its commands.
	command string
	// own and commands are the flags and the commands of the last command.
	own      []cli.Flag
	commands []*cli.Command
	// ended is set after the first argument of the command. Its options precede it, unless anywhere is set.
	ended, anywhere bool
	// raw is set if the command has no options: it takes all words.
	raw bool
	// front has options of the app, rest the commands with their options, and last the words from the first argument on.
	front, rest, last []string
}

// OptionsAnywhere is a key of cli.App.Metadata. If it is there, the options of a command may also follow its arguments, as
// in kubectl.
const OptionsAnywhere = "options anywhere"

// arrange moves the options of the app before its commands, where cli expects them. If the command
// has an option of the same name, an option after the command belongs to the command.
//
// arrange returns an error for an unknown option, for an option without its value, and for a value
// that is not of the flag's type, on the command line or in an environment variable. The errors of
// cli for such mistakes have no types, and do not name the variable.
func arrange(app *cli.App, words []string) ([]string, error) {
	_, anywhere := app.Metadata[OptionsAnywhere]
	a := &arguments{app: app, command: app.Name, commands: app.Commands, anywhere: anywhere}
	for len(words) > 0 && words[0] != "--" && !a.raw {
		n, err := a.read(words)
		if err != nil {
			return nil, a.usage(err)
		}
		words = words[n:]
	}
	for _, f := range slices.Concat(app.Flags, a.own) {
		if value := os.Getenv(variable(f)); value != "" {
			if err := checkType(f, value); err != nil {
				return nil, a.usage(err)
			}
		}
	}
	if anywhere && len(a.last) > 0 && len(words) > 0 && words[0] == "--" {
		// The words after "--" are arguments, and cli expects it before the first argument.
		a.rest, words = append(a.rest, "--"), words[1:]
	}
	return slices.Concat(a.front, a.rest, a.last, words), nil
}

// usage returns the error in the command line, with the command for help.
func (a *arguments) usage(err error) error { return Usagef("%w: see '%s --help'", err, a.command) }

// read reads a command, an argument, or an option with its value. It returns the number of words.
func (a *arguments) read(words []string) (int, error) {
	if strings.HasPrefix(words[0], "-") && words[0] != "-" {
		return a.option(words)
	}
	a.word(words[0])
	return 1, nil
}

// word reads a command or an argument.
func (a *arguments) word(word string) {
	at := slices.IndexFunc(a.commands, func(c *cli.Command) bool { return c.HasName(word) })
	if at < 0 || a.ended {
		a.ended = true
		a.last = append(a.last, word)
		return
	}
	a.rest = append(a.rest, word)
	c := a.commands[at]
	a.command += " " + c.Name
	a.own, a.commands, a.raw = c.Flags, c.Subcommands, c.SkipFlagParsing
}

// option reads an option, and its value if that is the next word. It returns the number of words.
func (a *arguments) option(words []string) (int, error) {
	name, value, hasValue := strings.Cut(strings.TrimLeft(words[0], "-"), "=")
	f, n, to := findFlag(a.own, name), 1, &a.rest
	if global := findFlag(a.app.Flags, name); f == nil && global != nil {
		f = global
		if global != cli.HelpFlag {
			to = &a.front
		}
	}
	takesValue := false
	if d, ok := f.(cli.DocGenerationFlag); ok {
		takesValue = d.TakesValue()
	}
	if takesValue && !hasValue && len(words) > 1 {
		n, value, hasValue = 2, words[1], true
	}
	if a.ended && !a.anywhere && to == &a.rest {
		a.last = append(a.last, words[:n]...)
		return n, nil // an argument
	}
	*to = append(*to, words[:n]...)
	switch {
	case f == nil:
		return 0, fmt.Errorf("unknown flag %s%s", dashed(name), question("--", text.Nearest(name, longNames(slices.Concat(a.own, a.app.Flags)))))
	case takesValue && !hasValue:
		return 0, fmt.Errorf("flag %s needs a value", dashed(name))
	case hasValue:
		return n, checkType(f, value)
	default:
		return n, nil
	}
}
