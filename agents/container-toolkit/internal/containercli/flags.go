package containercli

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"

	"outrigger.dev/agents/container-toolkit/internal/container"
	"outrigger.dev/agents/container-toolkit/internal/request"
)

// flags holds the flags of a command. Most flags have a second name of one letter.
type flags struct {
	*flag.FlagSet
	arguments, usage string
	letters          map[string]string
}

// newFlags returns the flags of a command. The empty name stands for the program itself.
func newFlags(name, arguments, usage string) *flags {
	f := &flags{FlagSet: flag.NewFlagSet(name, flag.ContinueOnError), arguments: arguments, usage: usage, letters: map[string]string{}}
	f.SetOutput(io.Discard)
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

// parse reads the arguments. Letters can be combined into one word, and the last letter may have a
// value: "-cu", "-kd FILE".
func (f *flags) parse(args []string) error {
	var out []string
	for len(args) > 0 && len(args[0]) > 1 && args[0][0] == '-' && args[0] != "--" {
		words := f.split(args[0])
		out, args = append(out, words...), args[1:]
		if f.takesValue(words[len(words)-1]) && len(args) > 0 {
			out, args = append(out, args[0]), args[1:]
		}
	}
	err := f.Parse(append(out, args...))
	if err == nil || errors.Is(err, flag.ErrHelp) {
		return err
	}
	return f.usageError(err)
}

// takesValue reports whether the argument after word is the value of its flag.
func (f *flags) takesValue(word string) bool {
	known := f.Lookup(strings.TrimLeft(word, "-"))
	if known == nil {
		return false
	}
	b, ok := known.Value.(interface{ IsBoolFlag() bool })
	return !ok || !b.IsBoolFlag()
}

// split returns the flags of a word like "-cu". It returns the word itself unless all letters are
// flags and only the last flag has a value.
func (f *flags) split(word string) []string {
	letters, value, _ := strings.Cut(word[1:], "=")
	if f.Lookup(letters) != nil {
		return []string{word}
	}
	var out []string
	for i, l := range letters {
		one := "-" + string(l)
		if f.Lookup(string(l)) == nil || i < len(letters)-1 && f.takesValue(one) {
			return []string{word}
		}
		out = append(out, one)
	}
	if len(out) == 0 {
		return []string{word}
	}
	if strings.Contains(word, "=") {
		out[len(out)-1] += "=" + value
	}
	return out
}

// usageError returns the error about the command line, with the fix.
func (f *flags) usageError(err error) error {
	if f.Name() == "" {
		return fmt.Errorf("%w; see %q", err, program+" --help")
	}
	return fmt.Errorf("%s: %w; see %q", f.Name(), err, program+" "+f.Name()+" --help")
}

// help prints the usage of the command.
func (f *flags) help(w io.Writer, commands []command) {
	fmt.Fprintf(w, "Usage: %s\n\n%s\n\nFlags:\n", strings.Join(strings.Fields(program+" "+f.Name()+" [FLAGS] "+f.arguments), " "), f.usage)
	f.VisitAll(func(one *flag.Flag) {
		if len(one.Name) == 1 {
			return
		}
		value, usage := flag.UnquoteUsage(one)
		names := "--" + one.Name
		if l, ok := f.letters[one.Name]; ok {
			names = "-" + l + ", " + names
		}
		if f.takesValue("--" + one.Name) {
			names += "=" + value
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
