package containercli

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"

	"outrigger.dev/agents/container-toolkit/internal/container"
	"outrigger.dev/agents/container-toolkit/internal/request"
	"outrigger.dev/pkg/version"
)

// flags holds the flags of a command. Most flags have a second name of one letter.
type flags struct {
	*flag.FlagSet
	arguments, usage string
	letters          map[string]string
	// Each command has the following flags, as in NVIDIA's program.
	showHelp, showUsage, showVersion *bool
}

// newFlags returns the flags of a command. The empty name stands for the program itself.
func newFlags(name, arguments, usage string) *flags {
	f := &flags{FlagSet: flag.NewFlagSet(name, flag.ContinueOnError), arguments: arguments, usage: usage, letters: map[string]string{}}
	f.SetOutput(io.Discard)
	f.showHelp = f.boolean("help", "?", "print this help")
	f.showUsage = f.boolean("usage", "", "print the command line without a description")
	f.showVersion = f.boolean("version", "V", "print the version")
	return f
}

func (f *flags) boolean(name, letter, usage string) *bool {
	p := new(bool)
	f.BoolVar(p, name, false, usage)
	if letter != "" {
		f.BoolVar(p, letter, false, usage)
		f.letters[name] = letter
	}
	return p
}

func (f *flags) text(name, letter, value, usage string) *string {
	p := new(string)
	f.StringVar(p, name, value, usage)
	if letter != "" {
		f.StringVar(p, letter, value, usage)
		f.letters[name] = letter
	}
	return p
}

// optional adds a flag that has no effect and may have a value.
func (f *flags) optional(name, letter, usage string) {
	f.Var(optionalValue{}, name, usage)
	f.Var(optionalValue{}, letter, usage)
	f.letters[name] = letter
}

// list adds a flag that can be repeated.
func (f *flags) list(name, letter, usage string) *[]string {
	p := new([]string)
	add := func(s string) error {
		*p = append(*p, s)
		return nil
	}
	f.Func(name, usage, add)
	if letter != "" {
		f.Func(letter, usage, add)
		f.letters[name] = letter
	}
	return p
}

// usageError returns the error about the command line, with the fix.
func (f *flags) usageError(err error) error {
	if f.Name() == "" {
		return fmt.Errorf("%w; see %q", err, program+" --help")
	}
	return fmt.Errorf("%s: %w; see %q", f.Name(), err, program+" "+f.Name()+" --help")
}

// answer parses the arguments. If they have --help, --usage or --version, answer prints the
// requested text and returns true, and the command does not run.
func (f *flags) answer(args []string, w io.Writer, commands []command) (done bool, err error) {
	err = f.parse(args)
	switch {
	case *f.showHelp || errors.Is(err, flag.ErrHelp):
		f.help(w, commands)
		return true, nil
	case err != nil:
		return false, err
	case *f.showUsage:
		_, err = fmt.Fprintln(w, f.line())
		return true, err
	case *f.showVersion:
		_, err = fmt.Fprintf(w, "cli-version: %s\n", version.String())
		return true, err
	}
	return false, nil
}

// line returns the command line of the command.
func (f *flags) line() string {
	return "Usage: " + strings.Join(strings.Fields(program+" "+f.Name()+" [FLAGS] "+f.arguments), " ")
}

// help prints the description of the command.
func (f *flags) help(w io.Writer, commands []command) {
	fmt.Fprintf(w, "%s\n\n%s\n\nFlags:\n", f.line(), f.usage)
	f.VisitAll(func(one *flag.Flag) {
		if len(one.Name) == 1 {
			return
		}
		value, usage := flag.UnquoteUsage(one)
		names := "--" + one.Name
		if l, ok := f.letters[one.Name]; ok {
			names = "-" + l + ", " + names
		}
		switch f.value(one.Name) { //nolint:exhaustive // a flag without a value adds nothing
		case required:
			names += "=" + value
		case optional:
			names += "[=" + value + "]"
		}
		fmt.Fprintf(w, "  %s\n        %s\n", names, usage)
	})
	if len(commands) > 0 {
		fmt.Fprintln(w, "\nCommands:")
	}
	for _, c := range commands {
		fmt.Fprintf(w, "  %-10s %s\n", c.Name(), c.usage)
	}
}

// selection holds the flags that choose devices.
type selection struct {
	flags                                *flags
	devices, migConfig, migMonitor, imex *[]string
}

func (f *flags) selection() selection {
	return selection{
		flags:      f,
		devices:    f.list("device", "d", "`GPUS`: all, or indexes, UUIDs, PCI bus IDs and MIG devices with commas between them"),
		migConfig:  f.list("mig-config", "", "let the container change the MIG instances of `GPUS`: all"),
		migMonitor: f.list("mig-monitor", "", "let the container watch the MIG instances of `GPUS`: all"),
		imex:       f.list("imex-channel", "", "the `NUMBERS` of IMEX channels"),
	}
}

// request returns the request that the flags describe.
func (s selection) request() (container.Request, error) {
	r := container.Request{Devices: splitLists(*s.devices)}
	for _, row := range []struct {
		name   string
		values *[]string
		to     *bool
	}{{"mig-config", s.migConfig, &r.MIGConfig}, {"mig-monitor", s.migMonitor, &r.MIGMonitor}} {
		for _, w := range splitLists(*row.values) {
			if w != "all" {
				return r, fmt.Errorf("--%s=%s: the only value is all", row.name, w)
			}
			*row.to = true
		}
	}
	for _, w := range splitLists(*s.imex) {
		n, err := request.ParseChannel(w)
		if err != nil {
			return r, fmt.Errorf("--imex-channel: %w", err)
		}
		r.IMEX = append(r.IMEX, n)
	}
	return r, nil
}

// used reports whether a flag of the selection is set.
func (s selection) used() bool {
	return len(*s.devices)+len(*s.migConfig)+len(*s.migMonitor)+len(*s.imex) > 0
}

// splitLists returns the items of comma-separated lists.
func splitLists(lists []string) []string {
	var out []string
	for _, list := range lists {
		for w := range strings.SplitSeq(list, ",") {
			if w = strings.TrimSpace(w); w != "" {
				out = append(out, w)
			}
		}
	}
	return out
}
