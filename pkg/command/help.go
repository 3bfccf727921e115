package command

import (
	"cmp"
	"flag"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"outrigger.dev/pkg/version"
)

func helpNames() []string { return []string{"help", "h"} }

func helpFlag() Flag {
	return plainFlag{&BoolFlag{Name: "help", Aliases: []string{"h"}, Usage: "show help"}}
}

func versionFlag() Flag {
	return plainFlag{&BoolFlag{Name: "version", Aliases: []string{"v"}, Usage: "print the version"}}
}

// plainFlag is a flag whose default goes without saying.
type plainFlag struct{ *BoolFlag }

func (f plainFlag) describe() (names, text string) { return prefixed(f.names(), ""), f.Usage }

// helpOf prints the help of the command below this one that words name, or of this one if
// there are none.
func (c *Context) helpOf(words []string) error {
	if len(words) == 0 {
		return c.help(c.command)
	}
	sub := c.command.sub(words[0])
	if sub == nil {
		return c.wrong(fmt.Errorf("unknown command %q", words[0]))
	}
	return c.below(sub).helpOf(words[1:])
}

// help prints the help of the command.
func (c *Context) help(cmd *Command) error {
	w := tabwriter.NewWriter(c.stdout, 1, 8, 2, ' ', 0)
	name, options, flags := strings.Join(c.path, " "), " [command options]", "OPTIONS"
	if c.above == nil {
		options, flags = " [global options] command [command options]", "GLOBAL OPTIONS"
		if len(cmd.Subcommands) == 1 {
			options = " [global options]"
		}
	}
	fmt.Fprintf(w, "NAME:\n   %s - %s\n\nUSAGE:\n   %s%s", name, cmd.Usage, name, options)
	if cmd.ArgsUsage != "" {
		fmt.Fprint(w, " ", cmd.ArgsUsage)
	}
	fmt.Fprintln(w)
	if c.above == nil {
		fmt.Fprintf(w, "\nVERSION:\n   %s\n", version.String())
	}
	if cmd.Description != "" {
		fmt.Fprintf(w, "\nDESCRIPTION:\n   %s\n", strings.ReplaceAll(cmd.Description, "\n", "\n   "))
	}
	if len(cmd.Subcommands) > 0 {
		fmt.Fprint(w, "\nCOMMANDS:\n")
		for _, sub := range cmd.Subcommands {
			fmt.Fprintf(w, "   %s\t%s\n", strings.Join(sub.names(), ", "), sub.Usage)
		}
		fmt.Fprintf(w, "   %s\tShows a list of commands or help for one command\n", strings.Join(helpNames(), ", "))
	}
	fmt.Fprintf(w, "\n%s:\n", flags)
	for _, f := range c.flags() {
		if f.visible() {
			names, text := f.describe()
			fmt.Fprintf(w, "   %s\t%s\n", names, text)
		}
	}
	return w.Flush()
}

func (f *flagOf[T]) describe() (names, text string) {
	placeholder, usage := unquote(f.Usage)
	value := f.DefaultText
	repeated := false
	switch v := any(f.Value).(type) {
	case bool:
		placeholder = ""
		value = cmp.Or(value, fmt.Sprint(v))
	case []string:
		repeated = true
		quoted := make([]string, len(v))
		for i, s := range v {
			quoted[i] = fmt.Sprintf("%q", s)
		}
		value = cmp.Or(value, strings.Join(quoted, ", "))
	case time.Duration:
		value = cmp.Or(value, v.String())
	case string:
		if v != "" {
			value = cmp.Or(value, fmt.Sprintf("%q", v))
		}
	case flag.Value:
		value = cmp.Or(value, v.String())
	}
	names = prefixed(f.names(), placeholder)
	if repeated {
		names += " [ " + names + " ]"
	}
	if value != "" {
		usage += " (default: " + value + ")"
	}
	if len(f.EnvVars) > 0 {
		usage += " [$" + strings.Join(f.EnvVars, ", $") + "]"
	}
	return names, usage
}

// unquote returns the word in backquotes, "value" if there is none, and the text without
// the backquotes.
func unquote(usage string) (name, text string) {
	parts := strings.SplitN(usage, "`", 3)
	if len(parts) < 3 {
		return "value", usage
	}
	return parts[1], strings.Join(parts, "")
}

// prefixed joins the names of a flag, with the name of its value if it has one.
func prefixed(names []string, value string) string {
	names = slices.Clone(names)
	for i, name := range names {
		names[i] = dashes(name)
		if value != "" {
			names[i] += " " + value
		}
	}
	return strings.Join(names, ", ")
}

// dashes returns the name of a flag as it is written.
func dashes(name string) string {
	if len(name) == 1 {
		return "-" + name
	}
	return "--" + name
}
