package agent

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/urfave/cli/v2"

	"outrigger.dev/pkg/completion"
	"outrigger.dev/pkg/text"
)

// dispatch parses the words after the program's name and runs the agent or a
// command.
//
// It replaces cli.App.Run, of which an agent needs little: that function reaches
// text/template, and then the linker keeps every exported method of every type,
// which costs each agent 2.4 MB of memory on every node.
func (s *session) dispatch(ctx context.Context, words []string) error {
	if n := len(words); n > 0 && words[n-1] == completion.Flag {
		return s.complete(words[:n-1])
	}
	root := &cli.Command{Name: s.app.Name, Flags: s.flags}
	c, err := s.parse(&cli.Context{Context: ctx}, root, hoist(words, s.index, s.aliases, s.allCommands()))
	if errors.Is(err, flag.ErrHelp) {
		return s.help()
	}
	if err != nil {
		return err
	}
	if asksVersion(c) {
		return s.version(c)
	}
	switch name := c.Args().First(); name {
	case "":
		if s.app.New == nil {
			return s.help()
		}
		return s.run(c) //nolint:contextcheck // c carries the context
	case "help":
		return s.helpOf(c)
	default:
		return s.command(c, name) //nolint:contextcheck // c carries the context
	}
}

// The names of the flag that does what the command version does, for those who know it
// from other programs.
const (
	versionFlag  = "version"
	versionShort = "v"
)

func asksVersion(c *cli.Context) bool { return c.Bool(versionFlag) || c.Bool(versionShort) }

// command runs a command with the words after its name: flags and, if it has an ArgsUsage, arguments.
func (s *session) command(parent *cli.Context, name string) error {
	cmd, err := s.find(name)
	if err != nil {
		return err
	}
	c, err := s.parse(parent, cmd, parent.Args().Tail())
	if errors.Is(err, flag.ErrHelp) {
		return s.commandHelp(cmd)
	}
	if err != nil {
		return err
	}
	if asksVersion(c) {
		return s.version(c)
	}
	if cmd.ArgsUsage == "" && c.Args().Present() {
		return Usagef("unexpected argument %q after %q", c.Args().First(), cmd.Name)
	}
	if cmd.Action == nil {
		return s.run(c)
	}
	return cmd.Action(c)
}

// find returns the command with a name.
func (s *session) find(name string) (*cli.Command, error) {
	var names []string
	for _, cmd := range s.allCommands() {
		if cmd.HasName(name) {
			return cmd, nil
		}
		names = append(names, cmd.Name)
	}
	return nil, Usagef("unknown command %q: must be %s", name, text.OneOf(append(names, "help")))
}

// parse reads the flags of a command from words and environment. It returns
// flag.ErrHelp if the words contain --help.
func (s *session) parse(parent *cli.Context, cmd *cli.Command, words []string) (*cli.Context, error) {
	set, path := flag.NewFlagSet(cmd.Name, flag.ContinueOnError), s.app.Name
	if parent.Command != nil {
		path += " " + cmd.Name
	}
	set.SetOutput(io.Discard)
	for _, f := range cmd.Flags {
		if err := f.Apply(set); err != nil {
			return nil, parseError(path, s.every, err)
		}
	}
	for _, name := range []string{versionFlag, versionShort} {
		if set.Lookup(name) == nil {
			set.Bool(name, false, "")
		}
	}
	if err := set.Parse(words); errors.Is(err, flag.ErrHelp) {
		return nil, err
	} else if err != nil {
		return nil, parseError(path, s.every, err)
	}
	s.note(cmd.Flags, set)
	app := &cli.App{Name: s.app.Name, Flags: s.flags, Writer: s.stdout, ErrWriter: s.stderr}
	c := cli.NewContext(app, set, parent)
	c.Command = cmd
	return c, nil
}

func (s *session) allCommands() []*cli.Command {
	return append(s.commands(), s.app.Commands...)
}

// helpOf prints the help of the command that follows the word help, or that of the agent.
func (s *session) helpOf(parent *cli.Context) error {
	c, err := s.parse(parent, &cli.Command{Name: "help"}, parent.Args().Tail())
	if errors.Is(err, flag.ErrHelp) {
		return s.help()
	}
	if err != nil {
		return err
	}
	name := c.Args().First()
	if c.NArg() > 1 {
		return Usagef("unexpected argument %q after %q", c.Args().Get(1), "help "+name)
	}
	if name == "" || name == "help" {
		return s.help()
	}
	cmd, err := s.find(name)
	if err != nil {
		return err
	}
	return s.commandHelp(cmd)
}

// help prints the help of the agent.
func (s *session) help() error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s\n\nUsage: %s [options] [command]\n\n", s.app.Name, s.app.Usage, s.app.Name)
	if s.app.New != nil {
		b.WriteString("Without a command, the agent runs. ")
	}
	b.WriteString("Options may precede or follow the command.\n\nCommands:\n")
	for _, cmd := range s.allCommands() {
		fmt.Fprintf(&b, "   %s\t%s\n", cmd.Name, cmd.Usage)
	}
	b.WriteString("   help\tprint this help, or that of a command\n")
	return s.printHelp(&b, s.flags, "   --version, -v\tprint the version\n")
}

// commandHelp prints the help of a command.
func (s *session) commandHelp(cmd *cli.Command) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s: %s\n\nUsage: %s [options] %s\n", s.app.Name, cmd.Name, cmd.Usage,
		s.app.Name, strings.TrimSpace(cmd.Name+" [command options] "+cmd.ArgsUsage))
	if cmd.Description != "" {
		fmt.Fprintf(&b, "\n%s\n", cmd.Description)
	}
	return s.printHelp(&b, cmd.Flags, "")
}

// printHelp prints a text, followed by the flags and more lines in columns.
func (s *session) printHelp(text *strings.Builder, flags []cli.Flag, more string) error {
	text.WriteString("\nOptions:\n")
	for _, f := range flags {
		if v, ok := f.(cli.VisibleFlag); !ok || v.IsVisible() {
			fmt.Fprintf(text, "   %s\n", f)
		}
	}
	text.WriteString("   --help, -h\tprint this help\n" + more)
	w := tabwriter.NewWriter(s.stdout, 0, 8, 2, ' ', 0)
	if _, err := io.WriteString(w, text.String()); err != nil {
		return fmt.Errorf("print help: %w", err)
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("print help: %w", err)
	}
	return nil
}
