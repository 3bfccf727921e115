// Package command is the command line of programs that have to be small: commands, flags
// that variables can set, help, shell completion, and errors of one line that name the fix.
//
// It shows and takes what package program does, which is on urfave/cli. That library
// writes its help with text/template, which calls methods by name: the linker then keeps
// each exported method of a program, a sixth to a quarter of it.
package command

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"

	"outrigger.dev/pkg/completion"
	"outrigger.dev/pkg/version"
)

// Command is a program, or a command of one.
type Command struct {
	Name    string
	Aliases []string
	// Usage says in a line what the command does.
	Usage string
	// ArgsUsage names the arguments. A command without it rejects arguments.
	ArgsUsage   string
	Description string
	Flags       []Flag
	Subcommands []*Command
	// Action does the work. Without one, the command prints its help.
	Action func(*Context) error
	// SkipFlagParsing makes flags arguments.
	SkipFlagParsing bool
}

// Context is a call of a command.
type Context struct {
	context.Context
	command *Command
	// path is the words up to the command, with the name of the program.
	path  []string
	above *Context
	set   *flag.FlagSet
	// given are the flags that the command line or a variable has set, and variables are
	// those of the latter.
	given     map[Flag]bool
	variables map[Flag]string
	stdout    io.Writer
}

// Run runs the program with the arguments args, of which the first is not read. It adds
// the flags --help and --version, and the commands help and completion.
func Run(ctx context.Context, program *Command, args []string, stdout io.Writer) error {
	root := *program
	root.Subcommands = append(slices.Clone(root.Subcommands), scripts(root.Name))
	c := &Context{Context: ctx, command: &root, path: []string{root.Name}, stdout: stdout}
	if words, ok := cutCompletion(args[1:]); ok {
		return c.complete(words)
	}
	return c.run(args[1:])
}

// below returns the call of a subcommand.
func (c *Context) below(sub *Command) *Context {
	return &Context{Context: c.Context, command: sub, path: append(slices.Clip(c.path), sub.Name), above: c, stdout: c.stdout}
}

func (c *Context) run(args []string) error {
	if err := c.parse(args); err != nil {
		return c.wrong(err)
	}
	if c.flag("help") {
		return c.help(c.command)
	}
	if c.above == nil && c.flag("version") {
		_, err := fmt.Fprintf(c.stdout, "%s version %s\n", c.command.Name, version.String())
		return err
	}
	if first := c.set.Arg(0); slices.Contains(helpNames(), first) {
		return c.helpOf(c.set.Args()[1:])
	} else if sub := c.command.sub(first); sub != nil {
		return c.below(sub).run(c.set.Args()[1:])
	}
	switch {
	case c.set.NArg() == 0 || c.command.ArgsUsage != "":
	case len(c.command.Subcommands) > 0:
		return c.wrong(fmt.Errorf("unknown command %q", c.set.Arg(0)))
	default:
		return c.wrong(fmt.Errorf("unexpected argument %q", c.set.Arg(0)))
	}
	if c.command.Action == nil {
		return c.help(c.command)
	}
	return c.act()
}

// parse reads the flags of the command from variables, then from its arguments.
func (c *Context) parse(args []string) error {
	c.set, c.given, c.variables = flag.NewFlagSet(c.command.Name, flag.ContinueOnError), map[Flag]bool{}, map[Flag]string{}
	c.set.SetOutput(io.Discard)
	for _, f := range c.flags() {
		variable, err := f.define(c.set)
		if err != nil {
			return err
		}
		c.given[f] = variable != ""
		if variable != "" {
			c.variables[f] = variable
		}
	}
	if c.command.SkipFlagParsing {
		args = append([]string{"--"}, args...)
	}
	if err := c.set.Parse(args); err != nil {
		return c.reword(err)
	}
	used := map[Flag]string{}
	var err error
	c.set.Visit(func(s *flag.Flag) {
		f := c.byName(s.Name)
		if other := used[f]; other != "" {
			err = errors.Join(err, fmt.Errorf("-%s and -%s are the same flag: use one", other, s.Name))
		}
		used[f], c.given[f] = s.Name, true
		delete(c.variables, f)
	})
	return err
}

// reword returns an error of package flag about a value in the form of our errors.
func (c *Context) reword(err error) error {
	var value, name string
	for _, form := range []string{"invalid value %q for flag -%s", "invalid boolean value %q for -%s"} {
		if _, e := fmt.Sscanf(err.Error(), form, &value, &name); e != nil {
			continue
		}
		if f := c.byName(strings.TrimSuffix(name, ":")); f != nil {
			_, cause, _ := strings.Cut(err.Error(), name+" ")
			return invalid(f, strings.TrimSuffix(name, ":"), value, errors.New(cause))
		}
	}
	return err
}

// act does the work of the command.
func (c *Context) act() error {
	err := c.command.Action(c)
	for level := c; level != nil && err != nil; level = level.above {
		for f, variable := range level.variables {
			err = named(err, f.names()[0], variable)
		}
	}
	return err
}

// wrong returns an error about the command line, with the fix.
func (c *Context) wrong(err error) error {
	if c.above != nil {
		err = fmt.Errorf("%s: %w", strings.Join(c.path[1:], " "), err)
	}
	return fmt.Errorf("%w; see %q", err, strings.Join(c.path, " ")+" --help")
}

// names returns all names of the command.
func (c *Command) names() []string { return append([]string{c.Name}, c.Aliases...) }

// sub returns the subcommand with a name, or nil.
func (c *Command) sub(name string) *Command {
	for _, sub := range c.Subcommands {
		if slices.Contains(sub.names(), name) {
			return sub
		}
	}
	return nil
}

// Parent returns the call of the command above this one, or nil.
func (c *Context) Parent() *Context { return c.above }

// Args returns the arguments that are no flags.
func (c *Context) Args() []string { return c.set.Args() }

// scripts returns the command that prints scripts for shells.
func scripts(program string) *Command {
	out := &Command{
		Name: "completion", Usage: "print a script that completes commands and flags in a shell",
		Description: completion.Hint(program),
	}
	for _, shell := range completion.Shells() {
		out.Subcommands = append(out.Subcommands, &Command{
			Name: shell, Usage: "print the completion script for " + shell,
			Action: func(c *Context) error {
				script, _ := completion.Script(shell, program)
				_, err := fmt.Fprint(c.stdout, script)
				return err
			},
		})
	}
	return out
}
